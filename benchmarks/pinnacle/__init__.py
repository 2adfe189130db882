"""PINNacle's problems, one network for each family.

    python -m benchmarks.pinnacle

PINNacle (Hao et al., arXiv 2306.08827; github.com/i207M/PINNacle, MIT licence) compares a dozen
methods on 22 problems and six parametric ones, for which it trains a network at every value of the
parameter. Here a problem is a family over a range of that parameter, or of a natural one, trained
once; its errors are measured at the benchmark's values, against references of our own and, where
there is one, a thinned copy of the published file.
"""
