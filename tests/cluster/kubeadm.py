"""kubeadm's phase of the DNS addon in the cluster, which ``kubeadm init`` and ``kubeadm upgrade`` run."""

from __future__ import annotations

from tests.cluster.control_plane import SERVICES
from tests.cluster.images import FASTDNS
from tests.cluster.programs import COREDNS, VERSION
from tests.cluster.scene import RETURN, Scene
from tests.waiting import until

__all__ = ["addon"]

#: kubeadm adds the name of the image.
REPOSITORY = "fastdns.test/kubeadm"
CONFIGURATION = """apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking: {serviceSubnet: %s}
dns: {imageRepository: %s, imageTag: %s}
"""


def addon(scene: Scene) -> str:
    """The phase where there is no DNS server, again over what it has installed, and over an image whose tag is a version that kubeadm does not know."""
    known = version(scene)
    for tag in (known, COREDNS):
        for node in scene.nodes:
            node.host.run(*node.ctr("images", "tag", "--force", FASTDNS, f"{REPOSITORY}/coredns:{tag}"))
    scene.deployment.remove()
    told = [f"installs it with the tag {known}"]
    run(scene, known)
    run(scene, known)
    told.append("goes through a second time")
    scene.control.kubectl("-n", "kube-system", "set", "image", "deployment/coredns", f"coredns={REPOSITORY}/coredns:{COREDNS}")
    try:
        run(scene, COREDNS)
        told.append(f"and with the tag {COREDNS}")
    except RuntimeError as error:
        if "not supported" not in str(error):
            raise
        told.append(f"and over the tag {COREDNS}, which it does not know, ends with an error and changes nothing")
    scene.deployment.wait()
    until(lambda: scene.client.asked("kubernetes.default.svc.cluster.local"), "an answer after the phase", RETURN)
    return ", ".join(told)


def version(scene: Scene) -> str:
    """The version of CoreDNS that this kubeadm has."""
    listed = scene.control.host.run(str(scene.control.programs / "kubeadm"), "config", "images", "list", f"--kubernetes-version={VERSION}")
    return next(image.rpartition(":")[2] for image in listed.split() if "/coredns:" in image)


def run(scene: Scene, tag: str) -> None:
    """The phase with an image of a tag, until its pods are ready and a client is answered. Raises RuntimeError where kubeadm fails."""
    control = scene.control
    file = control.host.folder / "kubeadm.yaml"
    file.write_text(CONFIGURATION % (VERSION, SERVICES, REPOSITORY, tag))
    words = ["init", "phase", "addon", "coredns", f"--config={file}", f"--kubeconfig={control.certificates.conf('admin')}"]
    control.host.run(str(control.programs / "kubeadm"), *words)
    scene.deployment.wait()
    until(lambda: scene.client.asked("kubernetes.default.svc.cluster.local"), "an answer of what kubeadm installed", RETURN)
