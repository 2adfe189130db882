"""How wrong a solution is, estimated without knowing the truth.

The error d of an approximate solution u satisfies, to first order, the linearised equations with
the residual on their right-hand side, conditions that an ansatz imposes included:

    T'(u)[d] = -T(u)     for every term T, inside and on the faces.

A small residual alone says little where errors build up in time or near a resonance; this does.
`lcpinn.spectral` solves it; `estimator.py` asks for it at one lambda, the files beside it say when
an answer counts as an estimate, and `report.py` makes the certificate over many lambda.
"""

from lcpinn.certificate.estimate import Estimate
from lcpinn.certificate.estimator import Estimator, of_network
from lcpinn.certificate.report import certificate, worst_case

__all__ = ["Estimate", "Estimator", "certificate", "of_network", "worst_case"]
