# Priors and moderated variances by limma's fitFDist and squeezeVar: Rscript limma.R > limma.json (limma 3.54).
suppressMessages(library(limma))
set.seed(20261126)

page <- function(name, degrees, d0, scale) {
    n <- length(degrees)
    truth <- if (is.finite(d0)) scale * d0 / rchisq(n, d0) else rep(scale, n)
    list(name = name, degrees = degrees, variances = truth * rchisq(n, degrees) / degrees)
}
pages <- list(
    page("a strong prior", rep(5, 12), 20, 3e-4),
    page("a weak prior", rep(8, 36), 1.5, 1e-3),
    page("one variance", rep(4, 24), Inf, 2e-3),
    page("unequal degrees", rep(c(3, 5, 11), 8), 6, 1e-4),
    page("three cases", rep(10, 3), 4, 1e-2)
)
# A variance of zero is lifted.
pages[[4]]$variances[2] <- 0

numbers <- function(x) paste0("[", paste(ifelse(is.finite(x), sprintf("%.17g", x), "null"), collapse = ", "), "]")
of <- function(page) {
    prior <- fitFDist(page$variances, page$degrees)
    squeezed <- squeezeVar(page$variances, page$degrees)
    sprintf(
        '{"name": "%s", "variances": %s, "degrees": %s, "prior": %s, "posterior": %s}', page$name, numbers(page$variances),
        numbers(page$degrees), numbers(c(prior$df2, prior$scale)), numbers(squeezed$var.post)
    )
}
cat("[", paste(sapply(pages, of), collapse = ",\n "), "]\n", sep = "")
