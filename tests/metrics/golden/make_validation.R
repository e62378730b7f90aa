# Writes validation.json: what a validation with competing risks reports, by R's survival,
# riskRegression, prodlim and geepack; and concordance with late entry by survival.
#
# Run by hand in R with the packages below (Debian: r-cran-riskregression, r-cran-geepack,
# r-cran-jsonlite), after a change of the cases:
#
#     Rscript tests/metrics/golden/make_validation.R tests/metrics/golden
suppressMessages({
  library(survival); library(riskRegression); library(prodlim); library(geepack); library(jsonlite)
})
folder <- commandArgs(trailingOnly = TRUE)[1]

simulate <- function(n, n_causes, seed, late = FALSE) {
  set.seed(seed)
  m <- if (late) 3 * n else n
  x <- matrix(rnorm(2 * m), m)
  hazard <- cbind(0.5 * exp(0.7 * x[, 1] - 0.5 * x[, 2]), 0.3 * exp(-0.3 * x[, 1] + 0.6 * x[, 2]))
  hazard <- hazard[, seq_len(n_causes), drop = FALSE]
  first <- matrix(rexp(m * n_causes, hazard), m)
  censored <- rexp(m, 0.4)
  duration <- apply(cbind(first, censored), 1, min)
  event <- apply(cbind(first, censored), 1, which.min)
  event[event > n_causes] <- 0
  entry <- if (late) pmax(0, runif(m, -0.3, 0.8)) else rep(0, m)
  kept <- which(entry < duration)[seq_len(n)]
  list(x = x[kept, ], event = event[kept], duration = duration[kept], entry = entry[kept])
}

validation <- function(n, n_causes, seed, time) {
  data <- simulate(n, n_causes, seed)
  frame <- data.frame(duration = data$duration, event = data$event)
  risk <- 1 - exp(-0.6 * time * exp(0.8 * data$x[, 1] - 0.3 * data$x[, 2]))
  score <- Score(list(model = matrix(risk, ncol = 1)), formula = Hist(duration, event) ~ 1,
                 data = frame, times = time, cause = 1, metrics = c("brier", "auc"),
                 summary = "ipa", cens.model = "km", se.fit = TRUE)
  states <- survfit(Surv(duration, factor(event, 0:n_causes)) ~ 1, data = frame)
  observed <- summary(states, times = time)
  curves <- prodlim(Hist(duration, event) ~ 1, data = frame)
  pseudo <- if (n_causes == 1) 1 - jackknife(curves, times = time)[, 1] else
    jackknife(curves, times = time, cause = 1)[, 1]
  smooth <- predict(loess(pseudo ~ risk, degree = 1, span = 0.33,
                          control = loess.control(surface = "direct")), risk)
  gap <- abs(smooth - risk)
  tied <- round(risk, 2)
  neighbours <- meanNeighbors(tied, pseudo, bandwidth = 0.05)
  cloglog <- log(-log(1 - risk))
  people <- data.frame(pseudo, cloglog, id = seq_along(risk))
  fit <- function(formula) geese(formula, data = people, id = id, scale.fix = TRUE,
                                 family = gaussian, mean.link = "cloglog", corstr = "independence")
  level <- fit(pseudo ~ offset(cloglog))
  both <- fit(pseudo ~ offset(cloglog) + cloglog)
  benefit <- sapply(c(0.2, 0.4), function(q) {
    treated <- summary(survfit(Surv(duration, factor(event, 0:n_causes)) ~ 1,
                               data = frame[risk > q, ]), times = time)$pstate[2]
    mean(risk > q) * (treated - (1 - treated) * q / (1 - q))
  })
  list(event = data$event, duration = data$duration, risk = risk, time = time,
       n_causes = n_causes, observed = observed$pstate[2], observed_error = observed$std.err[2],
       brier = score$Brier$score$Brier[2], ipa = score$Brier$score$IPA[2],
       auc = score$AUC$score$AUC, pseudo = pseudo, smooth = smooth,
       neighbours = neighbours$averageY[match(tied, neighbours$uniqueX)],
       summaries = list(ici = mean(gap), e50 = unname(quantile(gap, 0.5)),
                        e90 = unname(quantile(gap, 0.9)), emax = max(gap),
                        root_squared_bias = sqrt(mean(gap^2))),
       intercept = c(level$beta[[1]], sqrt(level$vbeta[1])),
       slope = c(1 + both$beta[[2]], sqrt(both$vbeta[2, 2])),
       p_value = pchisq(drop(both$beta %*% solve(both$vbeta) %*% both$beta), 2,
                        lower.tail = FALSE),
       net_benefit = benefit)
}

late_entry <- function(n, seed) {
  data <- simulate(n, 2, seed, late = TRUE)
  data$duration <- round(data$duration, 2) + 0.01
  data$entry <- round(data$entry, 2)
  risk <- round(plogis(data$x[, 1] - 0.5 * data$x[, 2]), 2)
  found <- concordance(Surv(data$entry, data$duration, data$event == 1) ~ risk, reverse = TRUE)
  c(data[c("event", "duration", "entry")],
    list(risk = risk, concordance = unname(found$concordance),
         standard_error = unname(sqrt(found$var))))
}

golden <- list(
  made_by = paste("R", getRversion(), "survival", packageVersion("survival"), "riskRegression",
                  packageVersion("riskRegression"), "geepack", packageVersion("geepack")),
  validation = list(one_cause = validation(200, 1, 1, 0.8), two_causes = validation(250, 2, 2, 0.8)),
  late_entry = late_entry(200, 3))
write_json(golden, file.path(folder, "validation.json"), digits = NA, auto_unbox = TRUE)
