"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler on one host, with the flags that kubeadm gives them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.certificates import Certificates
from tests.cluster.hosts import Host
from tests.cluster.kubectl import Kubectl
from tests.waiting import until

__all__ = ["ADDRESS", "PODS", "SERVICES", "ControlPlane"]

ADDRESS = "192.168.66.10"
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"
#: Seconds until the API server answers, on a busy machine.
START = 180.0
#: By etcd's gateway for JSON.
COMPACTION = """
import json, urllib.request
def call(method, body):
    return json.load(urllib.request.urlopen("http://127.0.0.1:2379/v3/kv/" + method, json.dumps(body).encode(), timeout=30))
call("compaction", {"revision": call("range", {"key": "AA=="})["header"]["revision"]})
"""


class ControlPlane(Kubectl):
    """``kubectl`` and what else is a client of the API server runs on its host too."""

    def __init__(self, host: Host, programs: Path, certificates: Certificates) -> None:
        super().__init__(host, programs, certificates.folder)
        self.certificates = certificates
        #: Folders of keys for tokens of service accounts: new ones are signed with the first, and those of all are taken.
        self.token_keys = [certificates.pki]
        #: What pods are given to know the API server by.
        self.root = certificates.pki / "ca.crt"

    def start(self) -> None:
        self.start_etcd()
        self.start_apiserver()
        self.bind_administrator()
        self.start_managers()

    def bind_administrator(self) -> None:
        """Who may do nothing before. kubeadm does so with the super-admin's credentials."""
        words = ["create", "clusterrolebinding", "kubeadm:cluster-admins", "--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins"]
        self.kubectl(*words, conf="super-admin")

    def start_etcd(self) -> None:
        words = ["--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380"]
        self.host.start("etcd", str(self.programs / "etcd"), f"--data-dir={self.host.folder}/etcd", *words, "--unsafe-no-fsync")

    def start_apiserver(self) -> None:
        pki = self.certificates.pki
        self.host.start(
            "kube-apiserver", str(self.programs / "kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443", f"--advertise-address={ADDRESS}", f"--service-cluster-ip-range={SERVICES}",
            # A test of DNS has a service whose name begins with a digit.
            "--feature-gates=RelaxedServiceNameValidation=true",
            "--allow-privileged=true", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true",
            f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt", f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP,Hostname", "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            *(f"--service-account-key-file={folder}/sa.pub" for folder in self.token_keys),
            f"--service-account-signing-key-file={self.token_keys[0]}/sa.key",
            f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt", "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki}/front-proxy-client.crt", f"--proxy-client-key-file={pki}/front-proxy-client.key",
        )  # fmt: skip
        until(self.ready, "the API server's start", START)

    def restart_apiserver(self) -> None:
        self.host.stop("kube-apiserver")
        self.start_apiserver()

    def compact(self) -> None:
        """Have etcd forget all revisions before its newest one, and the API server, which starts anew, too."""
        self.host.run(sys.executable, "-c", COMPACTION)
        self.restart_apiserver()

    def start_managers(self, *names: str, options: Sequence[str] = ()) -> None:
        """Both, or those named, with further options."""
        pki = self.certificates.pki
        for name in names or ("controller-manager", "scheduler"):
            conf = self.certificates.conf(name)
            words = [f"--{kind}={conf}" for kind in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
            words += ["--leader-elect=false", "--bind-address=127.0.0.1"]
            if name == "controller-manager":
                words += [
                    "--use-service-account-credentials=true", f"--service-account-private-key-file={self.token_keys[0]}/sa.key", f"--root-ca-file={self.root}",
                    f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key",
                    f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
                    f"--cluster-cidr={PODS}", f"--service-cluster-ip-range={SERVICES}", "--allocate-node-cidrs=false",
                ]  # fmt: skip
            self.host.start(f"kube-{name}", str(self.programs / f"kube-{name}"), *words, *options)

    def ready(self) -> bool:
        if ended := self.host.ended():
            raise RuntimeError(f"{', '.join(ended)} ended: {(self.host.folder / f'{ended[0]}.log').read_text()[-2000:]}")
        try:
            return self.kubectl("get", "--raw=/readyz", conf="super-admin") == "ok"
        except RuntimeError:
            return False
