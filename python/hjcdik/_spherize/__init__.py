"""The spherizer: from the geometry of a robot's links to collision spheres. An offline tool, in numpy.

``robot`` reads the URDF and finds meshes, ``solids`` and ``triangles`` give distances, ``cover`` chooses the
spheres, ``pairs`` the pairs that need no check, ``report`` judges, ``rebind`` moves spheres to other URDFs,
``model`` ties them together, and ``command`` is ``hjcdik spherize``.
"""

from hjcdik._spherize.model import SphereModel, spherize
from hjcdik._spherize.report import LinkReport, Report

__all__ = ["LinkReport", "Report", "SphereModel", "spherize"]
