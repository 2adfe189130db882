"""How wrong a solution is, estimated without knowing the truth.

The error d of an approximate solution u satisfies, to first order, the linearised equations with
the residual on their right-hand side,

    T'(u)[d] = -T(u)     for every term T, inside and on the faces,

conditions that an ansatz imposes included. A small residual alone says little where errors build up
in time or near a resonance; this does. `linear.py` has the linearisation, which is all that is
asked of a family; `expansion.py` solves for errors that are smooth, `march.py` for those with
fronts; `estimator.py` is the one estimate, `report.py` the certificate over many lambda.
"""

from lcpinn.certificate.estimator import Estimator, of_network
from lcpinn.certificate.expansion import Estimate, Level
from lcpinn.certificate.grid import Axis
from lcpinn.certificate.report import certificate, worst_case

__all__ = ["Axis", "Estimate", "Estimator", "Level", "certificate", "of_network", "worst_case"]
