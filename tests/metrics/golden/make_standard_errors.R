# Writes standard_errors.json: scores, their standard errors and paired differences as
# riskRegression (Score) and survival (concordance) compute them, and riskRegression's and pec's
# integrated Brier scores.
#
# Run by hand in R with the packages below (Debian: r-cran-riskregression, r-cran-pec,
# r-cran-jsonlite), after a change of the cases:
#
#     Rscript tests/metrics/golden/make_standard_errors.R tests/metrics/golden
suppressMessages({
  library(riskRegression); library(prodlim); library(survival); library(pec); library(jsonlite)
})
folder <- commandArgs(trailingOnly = TRUE)[1]

simulate <- function(n, n_causes, seed) {
  set.seed(seed)
  x <- matrix(rnorm(2 * n), n)
  hazard <- cbind(0.5 * exp(0.7 * x[, 1] - 0.5 * x[, 2]), 0.3 * exp(-0.3 * x[, 1] + 0.6 * x[, 2]))
  hazard <- hazard[, seq_len(n_causes), drop = FALSE]
  first <- matrix(rexp(n * n_causes, hazard), n)
  censored <- rexp(n, 0.4)
  duration <- apply(cbind(first, censored), 1, min)
  event <- apply(cbind(first, censored), 1, which.min)
  event[event > n_causes] <- 0
  list(x = x, event = event, duration = duration)
}

# Incidences of cause 1, two models: smooth ones, and ones with many ties.
models <- function(data, times) {
  smooth <- sapply(times, function(t) 1 - exp(-0.5 * t * exp(0.6 * data$x[, 1])))
  tied <- sapply(times, function(t) 1 - exp(-0.4 * t * exp(0.5 * round(data$x[, 1] - data$x[, 2]))))
  list(smooth = smooth, tied = tied)
}

# The integrated Brier scores of pec, at all times; its Brier score of cause 1 takes incidences.
crps_of <- function(frame, curves, times, n_causes) {
  predicted <- lapply(curves, function(p) if (n_causes == 1) cbind(1, 1 - p) else cbind(0, p))
  errors <- pec(predicted, formula = Hist(duration, event) ~ 1, data = frame, cause = 1,
                times = c(0, times), exact = FALSE, reference = FALSE, cens.model = "marginal",
                verbose = FALSE)
  unname(as.vector(crps(errors, times = max(times), start = 0)))
}

# Harrell's index of any event, by the risks at the first time, with its infinitesimal jackknife.
harrell <- function(frame, curves) {
  found <- lapply(curves, function(p)
    concordance(Surv(frame$duration, frame$event > 0) ~ p[, 1], reverse = TRUE))
  list(value = unname(sapply(found, function(f) f$concordance)),
       standard_error = unname(sapply(found, function(f) sqrt(f$var))))
}

score_case <- function(n, n_causes, seed, times, censored = TRUE) {
  data <- simulate(n, n_causes, seed)
  if (!censored) data$event[data$event == 0] <- 1
  frame <- data.frame(duration = data$duration, event = data$event)
  curves <- models(data, times)
  found <- Score(curves, formula = Hist(duration, event) ~ 1, data = frame, times = times,
                 cause = 1, metrics = c("brier", "auc"), null.model = FALSE, se.fit = TRUE,
                 conf.int = TRUE, contrasts = TRUE, cens.model = "km", conservative = FALSE,
                 summary = "ibs")
  scores <- function(table, value) list(
    model = as.character(table$model), time = table$times, value = table[[value]],
    standard_error = table$se, lower = table$lower, upper = table$upper)
  contrast <- function(table, value) list(
    time = table$times, model = as.character(table$model), reference = as.character(table$reference),
    difference = table[[value]], standard_error = table$se, lower = table$lower,
    upper = table$upper, p_value = table$p)
  list(event = data$event, duration = data$duration, times = times, n_causes = n_causes,
       smooth = curves$smooth, tied = curves$tied,
       ibs = found$Brier$score$IBS, crps = crps_of(frame, curves, times, n_causes),
       harrell = harrell(frame, curves),
       brier = scores(found$Brier$score, "Brier"), auc = scores(found$AUC$score, "AUC"),
       brier_difference = contrast(found$Brier$contrasts, "delta.Brier"),
       auc_difference = contrast(found$AUC$contrasts, "delta.AUC"))
}

golden <- list(
  made_by = paste("R", getRversion(), "riskRegression", packageVersion("riskRegression"),
                  "survival", packageVersion("survival")),
  cases = list(
    survival = score_case(150, 1, 1, c(0.4, 1.0)),
    competing = score_case(200, 2, 2, c(0.3, 0.8, 1.5)),
    uncensored = score_case(120, 2, 3, c(0.5, 1.2), censored = FALSE)))
write_json(golden, file.path(folder, "standard_errors.json"), digits = NA, auto_unbox = TRUE)
