# Writes survfit.json: Kaplan-Meier and Aalen-Johansen curves with late entry, ties, weights and
# standard errors, as survfit of R's survival computes them.
#
#     Rscript tests/metrics/golden/make_survfit.R tests/metrics/golden
suppressMessages({library(survival); library(jsonlite)})
folder <- commandArgs(trailingOnly = TRUE)[1]

simulate <- function(n, n_causes, seed, late) {
  set.seed(seed)
  first <- matrix(rexp(4 * n * n_causes, rep(c(0.5, 0.3)[seq_len(n_causes)], each = 4 * n)), 4 * n)
  censored <- rexp(4 * n, 0.4)
  entry <- if (late) round(pmax(0, runif(4 * n, -0.3, 1.5)), 1) else rep(0, 4 * n)
  duration <- round(apply(cbind(first, censored), 1, min), 1)  # Ties, also at time 0.
  event <- apply(cbind(first, censored), 1, which.min)
  event[event > n_causes] <- 0
  seen <- which(entry < duration | duration == 0 & entry == 0)[seq_len(n)]
  list(entry = entry[seen], duration = duration[seen], event = event[seen],
       weight = sample(1:3, n, replace = TRUE))
}

curves <- function(data, weighted) {
  # survfit takes start < stop only: entries of 0 include time 0.
  start <- ifelse(data$entry == 0, -1, data$entry)
  weight <- if (weighted) data$weight else rep(1, length(start))
  id <- seq_along(start)
  km <- survfit(Surv(start, data$duration, data$event > 0) ~ 1, weights = weight)
  # At the same time, an event comes before a censoring and a censoring before an entry.
  later <- data$duration + 0.01 * (data$event == 0)
  censoring <- survfit(Surv(start + 0.02, later, data$event == 0) ~ 1, weights = weight)
  jumps <- censoring$n.event > 0
  states <- factor(data$event, 0:max(data$event))
  aj <- survfit(Surv(start, data$duration, states) ~ 1, weights = weight, id = id)
  list(km = list(time = km$time, value = km$surv, error = km$std.err * km$surv),
       censoring = list(time = round(censoring$time - 0.01, 1)[jumps], value = censoring$surv[jumps],
                        error = (censoring$std.err * censoring$surv)[jumps]),
       aj = list(time = aj$time, value = unname(aj$pstate), error = unname(aj$std.err)))
}

case <- function(n, n_causes, seed, late = TRUE, weighted = FALSE) {
  data <- simulate(n, n_causes, seed, late)
  c(data, list(weighted = weighted), curves(data, weighted))
}

golden <- list(
  made_by = paste("R", getRversion(), "survival", packageVersion("survival")),
  cases = list(
    one_cause = case(80, 1, 1), two_causes = case(150, 2, 2), weighted = case(100, 2, 3, TRUE, TRUE),
    no_late_entry = case(100, 2, 4, FALSE)))
write_json(golden, file.path(folder, "survfit.json"), digits = NA, auto_unbox = TRUE, na = "null")
