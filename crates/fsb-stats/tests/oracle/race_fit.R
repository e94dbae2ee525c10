# Fits of races with random effects of slices: Rscript race_fit.R > race_fit.json (lme4 1.1). For each ratio of variances
# that src/race/fit.rs tries, lme4's REML criterion; at the least of them, generalised least squares with the covariance of
# the values written out.
suppressMessages(library(lme4))
set.seed(20261126)
PENALTIES <- c(1, 0.25, 0.06, 0.015, 0.004)

race <- function(name, rounds, candidates, noise, slices) {
    effect <- c(0, rnorm(candidates - 1, sd = 0.1))
    slice <- rnorm(4, sd = slices)
    rows <- do.call(rbind, lapply(seq_len(rounds), function(round) {
        who <- c(1, sample(2:candidates, 3))
        where <- sample(4)
        data.frame(round = round, who = who, slice = where, value = rnorm(1) + effect[who] + slice[where] + rnorm(4, sd = noise))
    }))
    list(name = name, candidates = candidates, rows = rows)
}
races <- list(
    race("slices like the noise", 20, 8, 0.03, 0.03),
    race("slices that differ", 16, 8, 0.03, 0.3),
    race("slices between", 12, 6, 0.03, 0.1),
    race("equal slices", 24, 10, 0.05, 0)
)

numbers <- function(x) paste0("[", paste(sprintf("%.17g", x), collapse = ", "), "]")
of <- function(race) {
    rows <- race$rows
    rows$round <- factor(rows$round)
    rows$who <- factor(rows$who)
    deviance <- lmer(value ~ 0 + round + who + (1 | slice), rows, REML = TRUE, devFunOnly = TRUE)
    best <- PENALTIES[which.min(sapply(PENALTIES, function(penalty) deviance(1 / sqrt(penalty))))]
    x <- model.matrix(~ 0 + round + who, rows)
    z <- model.matrix(~ 0 + factor(slice), rows)
    inverse <- solve(diag(nrow(rows)) + z %*% t(z) / best)
    covariance <- solve(t(x) %*% inverse %*% x)
    effects <- covariance %*% t(x) %*% inverse %*% rows$value
    left <- rows$value - x %*% effects
    # The slices count as so many fixed effects less one, which is on the safe side.
    degrees <- nrow(rows) - ncol(x) - (ncol(z) - 1)
    last <- ncol(x) - race$candidates + 1 + seq_len(race$candidates - 1)
    sprintf(
        '{"name": "%s", "candidates": %d, "rows": [%s], "penalty": %.17g, "effects": %s, "v": %s, "variance": %.17g, "degrees": %d}',
        race$name, race$candidates,
        paste(sprintf("[%d, %d, %d, %.17g]", race$rows$round, race$rows$who - 1, race$rows$slice - 1, race$rows$value), collapse = ", "),
        best, numbers(effects[last]), numbers(diag(covariance)[last]), sum(left * (inverse %*% left)) / degrees, degrees
    )
}
cat("[", paste(sapply(races, of), collapse = ",\n "), "]\n", sep = "")
