"""Reference solutions of the benchmark, more accurate than the published files.

- ``trefftz``: Δu = κ²u in a rectangle with round holes, by functions that solve it (any κ);
- ``holes``: Poisson 2d-C, Poisson 2d-CG and Heat 2d-CG, made of it;
- ``finite_volume``: heat in a medium of two conductivities;
- ``step``: flow over a step, on staggered grids;
- ``cut_cells``: Poisson 3d-CG, a block with balls cut out;
- ``hyperbola``: inverse Laplace transforms, for the heat equations among them;
- ``exponential``: ETDRK4 for equations with a stiff diagonal part;
- ``evolution``: Kuramoto-Sivashinsky, Gray-Scott and Heat 2d-LT, made of it.

Burgers is in ``lcpinn.reference.cole_hopf``, the cavity in ``lcpinn.reference.cavity``; the other
problems have closed forms. Nothing here is used in training. What takes longer than a second is
kept by ``lcpinn.cache``.
"""
