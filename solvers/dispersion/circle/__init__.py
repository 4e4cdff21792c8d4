r"""Points on a circle or on a line: an exact method whose work is longest paths.

Take the clients in the order of their angles :math:`\theta_1 \le \dots \le \theta_n` in an interval of length
:math:`2\pi`. Their distances are chords, and a chord is the sum of two kernels:

.. math:: 2 \sin\tfrac{|\theta|}{2} = \Bigl(|\theta| - \frac{\theta^2}{2\pi}\Bigr) + k(\theta), \qquad
    k(\theta) = \frac4\pi - \frac\pi3 - \frac2\pi \sum_{k \ge 1} \frac{\cos k\theta}{4 k^2 (k^2 - 1/4)} .

* Over pairs, the first adds up to
  :math:`\sum_r 2 (2r - m + 1) \theta_{(r)} - \frac1\pi \bigl(m \sum \theta^2 - T^2\bigr)`, where :math:`\theta_{(r)}`
  is the angle of the selected client of rank r = 0 … m − 1 and :math:`T = \sum \theta`. But for :math:`T^2` it depends
  on each client and its rank alone. (It is the L2 discrepancy of the selection on the circle: the classical functional
  that a sum of distances measures, Stolarsky 1973.) While T lies in [a, b], :math:`T^2 \le (a + b) T - ab`.
* The second has no positive coefficient but the constant, so :math:`\sum_{ij} k(\theta_i - \theta_j) s_i s_j` is
  concave on :math:`1^\top s = m`, and small: at a good selection a hundredth of what the first leaves. A tangent at any
  point bounds it by a sum over clients.

So every point of the slice and every interval for T give a bound that is the longest path through *staircases* (r of
the first j clients are selected), found exactly in O(nm). Pairwise Frank-Wolfe with that path as its oracle moves the
point; a node is branched on T or on a step of the staircase, and steps that no good path takes are cut off. Products
with the second kernel's matrix take O(n) by sums over prefixes, so no matrix is needed.

On a line the distances are :math:`|\theta_i - \theta_j|`: only the first term is left, and one path is the proof.
"""
