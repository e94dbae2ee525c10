# Random-effects models by metafor: Rscript random_effects.R > random_effects.json (metafor 3.8, R 4.2).
# Welch's test is oneway.test of the samples behind the estimates.
suppressMessages(library(metafor))
set.seed(20261127)

control <- list(threshold = 1e-14, maxiter = 1000)
numbers <- function(x) paste0("[", paste(ifelse(is.finite(x), sprintf("%.17g", x), "null"), collapse = ", "), "]")

# Estimates from samples of these sizes, whose true means have the standard deviation tau and shifts.
hosts <- function(name, sizes, tau, noise, shift = 0, groups = NULL) {
    k <- length(sizes)
    truth <- 0.09 + shift + rnorm(k, 0, tau)
    samples <- lapply(seq_len(k), function(i) rnorm(sizes[i], truth[i], rep_len(noise, k)[i]))
    list(
        name = name, samples = samples, groups = groups, sizes = sizes,
        y = sapply(samples, mean), v = sapply(samples, function(s) var(s) / length(s))
    )
}

model <- function(case, method) {
    fit <- rma(case$y, case$v, method = method, test = "knha", control = control)
    k <- length(case$y)
    half <- if (k > 2) qt(0.975, k - 2) * sqrt(fit$tau2 + fit$se^2) else NA
    list(fit = fit, values = c(
        fit$tau2, fit$b, fit$se, fit$ci.lb, fit$ci.ub, fit$pval, fit$I2 / 100, fit$QE, fit$b - half, fit$b + half
    ))
}

welch <- function(case) {
    data <- data.frame(value = unlist(case$samples), host = factor(rep(seq_along(case$samples), case$sizes)))
    oneway.test(value ~ host, data)$p.value
}

# Means of groups by REML, and F of equal means by DerSimonian and Laird.
moderators <- function(case) {
    if (is.null(case$groups)) return("null")
    group <- factor(case$groups)
    means <- rma(case$y, case$v, mods = ~ group - 1, method = "REML", test = "knha", control = control)
    f <- rma(case$y, case$v, mods = ~ group, method = "DL", test = "knha")
    sprintf(
        '{"groups": %s, "tau2": %.17g, "means": %s, "lo": %s, "hi": %s, "f": %.17g}', numbers(case$groups), means$tau2,
        numbers(means$b), numbers(means$ci.lb), numbers(means$ci.ub), f$QM
    )
}

of <- function(case) sprintf(
    '{"name": "%s", "y": %s, "v": %s, "degrees": %s, "dl": %s, "reml": %s, "welch": %.17g, "moderator": %s}',
    case$name, numbers(case$y), numbers(case$v), numbers(case$sizes - 1), numbers(model(case, "DL")$values),
    numbers(model(case, "REML")$values), welch(case), moderators(case)
)

cases <- list(
    hosts("two hosts", c(6, 9), 0.03, 0.02),
    hosts("three hosts", c(6, 6, 6), 0.03, 0.02),
    hosts("equal hosts", rep(10, 12), 0, 0.03),
    hosts("different hosts", rep(10, 12), 0.08, 0.03),
    hosts("unequal errors", rep(c(5, 8, 30), 7), 0.04, c(0.01, 0.2, 0.05)),
    hosts("forty hosts, two of which differ", rep(8, 40), 0.02, 0.04, c(rep(0, 38), -0.3, -0.35), c(rep(1, 38), 2, 2)),
    hosts("three groups", rep(c(6, 12), 12), 0.03, 0.05, rep(c(0, 0.1, 0.15), 8), rep(1:3, 8)),
    hosts("groups without a difference", rep(10, 16), 0.05, 0.02, 0, rep(1:2, 8))
)
cat("[", paste(sapply(cases, of), collapse = ",\n "), "]\n", sep = "")
