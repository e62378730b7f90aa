# Writes cox.json: coefficients and Breslow baselines of Cox regressions with late entry, by R's
# survival.
#
#     Rscript tests/metrics/golden/make_cox.R tests/metrics/golden
suppressMessages({library(survival); library(jsonlite)})
folder <- commandArgs(trailingOnly = TRUE)[1]
set.seed(4)
m <- 600
x <- matrix(rnorm(2 * m), m)
hazard <- cbind(0.5 * exp(0.7 * x[, 1] - 0.5 * x[, 2]), 0.3 * exp(-0.3 * x[, 1] + 0.6 * x[, 2]))
first <- matrix(rexp(2 * m, hazard), m)
censored <- rexp(m, 0.4)
duration <- apply(cbind(first, censored), 1, min)
event <- apply(cbind(first, censored), 1, which.min) %% 3
entry <- pmax(0, runif(m, -0.3, 1.2))
kept <- which(entry < duration)[1:200]
x <- x[kept, ]; duration <- duration[kept]; event <- event[kept]; entry <- entry[kept]
causes <- lapply(1:2, function(cause) {
  fit <- coxph(Surv(entry, duration, event == cause) ~ x, ties = "efron")
  base <- basehaz(fit, centered = FALSE)
  list(coefficients = unname(coef(fit)), time = base$time, hazard = base$hazard)
})
write_json(list(made_by = paste("R", getRversion(), "survival", packageVersion("survival")),
                x = x, event = event, duration = duration, entry = entry, causes = causes),
           file.path(folder, "cox.json"), digits = NA, auto_unbox = TRUE)
