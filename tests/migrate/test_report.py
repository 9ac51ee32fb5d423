"""What the report says of a cluster: one table a part of the cluster, from files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.migrate.clusters import COREFILES, Json, cluster, container, find, kubeadm, node_local
from tests.migrate.conftest import Outcome, run

Offline = Callable[..., Outcome]
Edit = Callable[[list[Json]], Any]


def test_kubeadm_has_nothing_that_stands_against_it(offline: Offline) -> None:
    found = offline(kubeadm(), "-image", "example.org/fastdns:v1.14.7")
    assert (found.status, found.err, found.report["ok"]) == (0, "", True)
    assert found.findings("error") == found.findings("warning") == []
    assert found.report["found"]["roles"] == ["ClusterRole/system:coredns"]
    assert found.report["found"]["services"] == ["kube-dns 10.96.0.10 53/UDP 53/TCP 9153/TCP"]
    assert [step["title"] for step in found.report["plan"]] == ["Before", "Try it", "Change", "Watch", "Go back"]
    assert found.commands("Change")[0] == "kubectl -n kube-system set image deployment/coredns coredns=example.org/fastdns:v1.14.7"
    assert found.commands("Go back")[0] == "kubectl -n kube-system set image deployment/coredns coredns=registry.k8s.io/coredns/coredns:v1.11.3"


def test_the_text_has_verdict_findings_and_plan(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(kubeadm()[:2]))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump_all(kubeadm()[2:]))
    found = run("-f", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))
    assert (found.status, found.err) == (0, "")
    assert (
        found.out.splitlines()[0] == "Deployment/coredns in kube-system, container coredns: registry.k8s.io/coredns/coredns:v1.11.3 -> REGISTRY/fastdns:v1.14.7"
    )
    assert found.out.splitlines()[1] == found.out.splitlines()[-1] == "nothing stands against the new image (errors: 0, warnings: 0, notes: 3)"
    places = [found.out.index(part) for part in ("To know:", "What behaves otherwise", "1. Before", "2. Try it", "3. Change", "4. Watch", "5. Go back")]
    assert places == sorted(places)


# ---- the Corefile ----


def corefile(text: str) -> list[Json]:
    return kubeadm(f".:53 {{\n    errors\n    health\n    ready\n    prometheus :9153\n    {text}\n    forward . /etc/resolv.conf\n}}\n")


COREFILES_SAID = [
    ("k8s_crd", "error", "/etc/coredns/Corefile:6: Unknown directive 'k8s_crd'"),
    ("cache 30 {\n sucess 1\n }", "error", "/etc/coredns/Corefile:7: plugin/cache: Wrong argument count or unexpected line ending after 'sucess'"),
    ("route53 example.org.:Z1", "error", "/etc/coredns/Corefile:6: route53 needs a library that only the image's tag -clouds has"),
    ("dnssec {\n key aws_secretsmanager x\n }", "error", "/etc/coredns/Corefile:6: dnssec with aws_secretsmanager needs a library"),
    ("cache 30s", "warning", "/etc/coredns/Corefile:6: "),
    ("import /etc/coredns/nothing.conf", "error", "/etc/coredns/Corefile:6: File to import not found: /etc/coredns/nothing.conf"),
]


@pytest.mark.parametrize(("text", "severity", "said"), COREFILES_SAID)
def test_the_corefile_is_checked(offline: Offline, text: str, severity: str, said: str) -> None:
    found = offline(corefile(text))
    assert said in found.said(severity)
    assert found.status == (1 if severity == "error" else 0)
    assert "fastdns-migrate-" not in found.out, "paths are the container's"


def test_an_external_plugin_has_its_hint_and_stands_in_the_plan(offline: Offline) -> None:
    found = offline(corefile("fanout . 1.1.1.1"))
    (wrong,) = found.findings("error")
    assert "the present image has a plugin of that name" in wrong["hint"]
    assert found.report["plan"][0]["steps"][0]["text"].startswith("change first: /etc/coredns/Corefile:6: Unknown directive 'fanout'")


def test_the_tag_clouds_has_the_libraries(offline: Offline) -> None:
    found = offline(corefile("route53 example.org.:Z1"), "-image", "example.org/fastdns:v1.14.7-clouds")
    assert "-clouds has" not in found.said("error")
    assert "takes the tag of the image as CoreDNS's version, and v1.14.7-clouds is none" in found.said("warning")


def test_in_cluster_configuration_is_no_problem_there(offline: Offline) -> None:
    assert "in-cluster" not in offline(kubeadm()).out


def mounted(objects: list[Json], name: str, path: str, volume: Json) -> None:
    find(objects, "Deployment")["spec"]["template"]["spec"]["volumes"].append({"name": name, **volume})
    container(objects)["volumeMounts"].append({"name": name, "mountPath": path})


def test_files_of_config_maps_are_there(offline: Offline) -> None:
    """Imports, hosts files and zone files of the Corefile's map and of others, by their paths in the container."""
    objects = kubeadm((COREFILES / "k3s").read_text() + "\nexample.org {\n    file /zones/db.example.org\n}\n")
    pod = find(objects, "Deployment")["spec"]["template"]["spec"]
    del pod["volumes"][0]["configMap"]["items"]
    find(objects, "ConfigMap")["data"]["NodeHosts"] = "192.0.2.1 node-1\n"
    mounted(objects, "custom", "/etc/coredns/custom", {"configMap": {"name": "coredns-custom", "optional": True}})
    mounted(objects, "zones", "/zones", {"projected": {"sources": [{"configMap": {"name": "zones"}}]}})
    zone = "$ORIGIN example.org.\n@ 300 IN SOA ns hostmaster 1 3600 600 86400 60\n@ 300 IN NS ns\nns 300 IN A 192.0.2.7\n"
    objects.append(cluster("v1", "ConfigMap", "zones", data={"db.example.org": zone}))
    assert offline(objects).findings("error") == []
    objects.append(cluster("v1", "ConfigMap", "coredns-custom", data={"a.override": "log\n", "b.override": "bogus\n", "c.server": "b.test {\n erratic\n}\n"}))
    found = offline(objects)
    assert found.said("error") == "/etc/coredns/custom/b.override:1: Unknown directive 'bogus'"
    find(objects, "ConfigMap", "zones")["data"]["db.example.org"] = "@ 300 IN A 192.0.2.300\n"
    assert "db.example.org" in offline(objects).said("error")


def test_secrets_are_named_and_not_read(offline: Offline) -> None:
    objects = kubeadm(
        "tls://.:853 {\n    tls /etc/tls/tls.crt /etc/tls/tls.key\n    whoami\n}\n.:53 {\n    health\n    ready\n    prometheus :9153\n    whoami\n}\n"
    )
    mounted(objects, "tls", "/etc/tls", {"secret": {"secretName": "dns-tls"}})
    objects.append(cluster("v1", "Secret", "dns-tls", data={"tls.key": "c2VjcmV0LXBhcnQ="}))
    found = offline(objects)
    assert found.findings("error") == []
    assert "/etc/coredns/Corefile:2: not checked further, for Secret/dns-tls was not read" in found.said("warning")
    assert "c2VjcmV0" not in found.out


def test_variables_of_the_container(offline: Offline) -> None:
    objects = corefile("import {$SNIPPETS}")
    objects[1]["data"]["Corefile"] = objects[1]["data"]["Corefile"].replace("forward . /etc", "forward . {$UPSTREAM} /etc")
    container(objects)["env"] = [{"name": "UPSTREAM", "value": "not an address"}, {"name": "SNIPPETS", "value": "/etc/coredns/*.none"}]
    assert "not an address" in offline(objects).said("error")
    container(objects)["env"][0]["value"] = "192.0.2.1"
    container(objects)["env"].append({"name": "APIKEY", "value": "hunter2"})
    found = offline(objects)
    assert found.findings("error") == []
    assert "hunter2" not in found.out
    container(objects)["env"][0] = {"name": "UPSTREAM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert "the variable UPSTREAM comes from a secret" in offline(objects).said("note")


def test_a_corefile_that_is_not_there(offline: Offline) -> None:
    found = offline([row for row in kubeadm() if row["kind"] != "ConfigMap"])
    assert found.status == 2
    assert "the Corefile is not checked: ConfigMap/coredns, which has it, was not read" in found.said("warning")
    assert found.report["unread"][0]["text"] == "cannot get configmaps coredns in the namespace kube-system: no file has it"
    objects = kubeadm()
    container(objects)["args"][1] = "/etc/coredns/Other"
    found = offline(objects)
    assert found.status == 1
    assert "/etc/coredns/Other:0: the Corefile is not there: ConfigMap/coredns has no such file" in found.said("error")
    container(objects)["args"][1] = "/Corefile"
    assert "no volume has it" in offline(objects).said("error")


# ---- the differences ----


def test_only_differences_of_its_plugins(offline: Offline) -> None:
    rows = offline(kubeadm()).report["differences"]
    about = {row["about"] for row in rows}
    assert {"cache", "forward", "health", "ready", "transport", "process"} <= about
    assert not {"etcd", "dnssec", "template", "route53", "acl", "rrl"} & about
    assert not [row for row in rows if row["what"].startswith(("DoQ", "DoH", "gRPC", "*tls*"))]
    assert not [row for row in rows if "health_check" in row["coredns"]], "an option that is not used"
    assert all(row["coredns"] and row["fastdns"] and row["why"] for row in rows)
    more = kubeadm("quic://. {\n    tls c k\n    template ANY ANY\n    forward . 1.1.1.1 {\n        health_check 0s\n    }\n}\n")
    rows = offline(more).report["differences"]
    assert {"template"} <= {row["about"] for row in rows}
    assert [row for row in rows if row["what"].startswith("DoQ:")]
    assert [row for row in rows if "health_check" in row["coredns"]]


def test_what_a_later_version_has_changed(offline: Offline) -> None:
    assert not [row for row in offline(kubeadm()).report["differences"] if row["why"] == "the reference is CoreDNS 1.14.7"]
    later = offline(kubeadm(image="registry.k8s.io/coredns/coredns:v1.15.0")).report["differences"]
    assert [row["what"] for row in later if row["about"] == "cache" and row["why"] == "the reference is CoreDNS 1.14.7"]


# ---- the pod ----


def edited(change: Edit) -> list[Json]:
    objects = kubeadm()
    change(objects)
    return objects


EXEC = {"exec": {"command": ["/bin/sh", "-c", "true"]}}
PODS: list[tuple[str, Edit, str, str]] = [
    (
        "port",
        lambda o: container(o)["livenessProbe"]["httpGet"].update(port=8081),
        "error",
        "livenessProbe asks /health at port 8081, and nothing in the Corefile",
    ),
    ("path", lambda o: container(o)["readinessProbe"]["httpGet"].update(path="/healthz"), "error", "readinessProbe asks /healthz at port 8181"),
    ("tcp", lambda o: container(o).update(livenessProbe={"tcpSocket": {"port": 54}}), "error", "livenessProbe connects to port 54"),
    ("exec", lambda o: container(o).update(livenessProbe=EXEC), "warning", "livenessProbe runs /bin/sh, which is not in the image"),
    ("command", lambda o: container(o).update(command=["/bin/sh", "-c", "coredns"]), "error", "command: /bin/sh is not in the image"),
    ("argument", lambda o: container(o)["args"].append("-alsologtostderr"), "warning", "arguments that fastdns does not have: -alsologtostderr"),
    ("preStop", lambda o: container(o).update(lifecycle={"preStop": EXEC}), "warning", "preStop runs /bin/sh"),
    ("postStart", lambda o: container(o).update(lifecycle={"postStart": EXEC}), "error", "postStart runs /bin/sh"),
    ("capability", lambda o: container(o)["securityContext"]["capabilities"].pop("add"), "warning", "the container has no NET_BIND_SERVICE"),
    ("cpu", lambda o: container(o)["resources"]["limits"].update(cpu="100m"), "warning", "a CPU limit of 100m throttles bursts"),
    ("memory", lambda o: container(o)["resources"]["limits"].update(memory="64Mi"), "warning", "the memory limit of 64Mi is below the 74 MB"),
    ("little memory", lambda o: container(o)["resources"]["limits"].update(memory="16Mi"), "error", "the memory limit of 16Mi is below"),
    ("grace", lambda o: o[0]["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=10), "note", "terminationGracePeriodSeconds is 10"),
    ("one replica", lambda o: o[0]["spec"].update(replicas=1), "warning", "there is one replica"),
    ("Helm", lambda o: o[0]["metadata"]["labels"].update({"app.kubernetes.io/managed-by": "Helm"}), "warning", "Helm manages it"),
    ("AKS", lambda o: o[0]["metadata"]["labels"].update({"addonmanager.kubernetes.io/mode": "Reconcile"}), "warning", "the addon manager manages it"),
    ("no Service", lambda o: o.remove(find(o, "Service", "kube-dns")), "note", "no Service has these pods"),
    ("target", lambda o: find(o, "Service", "kube-dns")["spec"]["ports"][2].update(targetPort="nothing"), "error", "its port 9153 goes to nothing"),
    (
        "target port",
        lambda o: find(o, "Service", "kube-dns")["spec"]["ports"][0].update(targetPort=1053),
        "warning",
        "its port 53 goes to 1053, where nothing listens",
    ),
]


@pytest.mark.parametrize(("change", "severity", "said"), [row[1:] for row in PODS], ids=[row[0] for row in PODS])
def test_the_pod(offline: Offline, change: Edit, severity: str, said: str) -> None:
    found = offline(edited(change))
    assert said in found.said(severity)
    assert found.status == (severity == "error")


# ---- rights ----


def test_rights_that_are_missing(offline: Offline) -> None:
    objects = kubeadm()
    find(objects, "ClusterRole", "system:coredns")["rules"][1]["verbs"] = ["list"]
    found = offline(objects)
    (wrong,) = found.findings("error")
    assert (found.status, wrong["subject"]) == (1, "ServiceAccount/coredns")
    assert wrong["message"] == "no role lets it list and watch endpointslices.discovery.k8s.io, which kubernetes needs"
    assert wrong["command"] == (
        "kubectl create clusterrole coredns-fastdns-endpointslices --verb=list,watch --resource=endpointslices.discovery.k8s.io && "
        "kubectl create clusterrolebinding coredns-fastdns-endpointslices --clusterrole=coredns-fastdns-endpointslices --serviceaccount=kube-system:coredns"
    )


def test_rights_of_all_accounts(offline: Offline) -> None:
    """What they may ask about themselves is no right to write."""
    objects = kubeadm()
    found = offline(objects)
    assert found.report["found"]["roles"] == ["ClusterRole/system:coredns"]
    assert "write" not in found.said()
    find(objects, "ClusterRole", "system:basic-user")["rules"].append({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]})
    assert [row["subject"] for row in offline(objects).findings("warning") if "write" in row["message"]] == ["ClusterRole/system:basic-user"]


RULE = {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}
SLICES = {"apiGroups": ["discovery.k8s.io"], "resources": ["*"], "verbs": ["*"]}
RIGHTS = [
    ("pods verified", [RULE, SLICES, {**RULE, "resources": ["namespaces"]}], ["pods"]),
    ("pods verified\n    noendpoints", [{**RULE, "resources": ["*"]}], []),
    ("multicluster c.test", [{**RULE, "resources": ["*"]}, SLICES], ["serviceimports.multicluster.x-k8s.io"]),
    ("endpoint http://192.0.2.1", [], []),
    ("ttl 30", [{**RULE, "resources": ["services"], "resourceNames": ["x"]}, {**RULE, "resources": ["namespaces"]}, SLICES], ["services"]),
]


@pytest.mark.parametrize(("option", "rules", "missing"), RIGHTS)
def test_rights_by_the_corefile(offline: Offline, option: str, rules: list[Json], missing: list[str]) -> None:
    objects = corefile(f"kubernetes cluster.local c.test {{\n    {option}\n    }}")
    find(objects, "ClusterRole", "system:coredns")["rules"] = rules
    said = [row["message"].split()[7].rstrip(",") for row in offline(objects).findings("error")]
    assert said == missing


def test_rights_in_namespaces(offline: Offline) -> None:
    objects = corefile("kubernetes cluster.local {\n    namespaces a b\n    }")
    find(objects, "ClusterRole", "system:coredns")["rules"] = []
    for namespace in ("a", "b")[: len("a")]:
        objects.append(cluster("rbac.authorization.k8s.io/v1", "Role", "dns", namespace, rules=[RULE, SLICES]))
        subjects = [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}]
        objects.append(cluster("rbac.authorization.k8s.io/v1", "RoleBinding", "dns", namespace, subjects=subjects, roleRef={"kind": "Role", "name": "dns"}))
    found = offline(objects)
    assert "list and watch services in b, which" in found.said("error")
    assert "kubectl -n b create role coredns-fastdns-services" in found.findings("error")[0]["command"]
    assert "in a" not in found.said("error")


def test_rights_of_k8s_gateway(offline: Offline) -> None:
    objects = corefile("k8s_gateway example.org {\n    resources HTTPRoute Service\n    }")
    said = offline(objects).said("error")
    assert "httproutes.gateway.networking.k8s.io" in said
    assert "gateways.gateway.networking.k8s.io" in said
    assert "services" not in said


# ---- around the pods ----


def proportional(parameters: Json) -> list[Json]:
    command = ["/cluster-proportional-autoscaler", "--namespace=kube-system", "--configmap=dns-autoscaler", "--target=Deployment/coredns"]
    spec = {"template": {"spec": {"containers": [{"name": "autoscaler", "image": "cpa", "command": command}]}}}
    data = {mode: json.dumps(values) for mode, values in parameters.items()}
    return [cluster("apps/v1", "Deployment", "dns-autoscaler", spec=spec), cluster("v1", "ConfigMap", "dns-autoscaler", data=data)]


def test_the_proportional_autoscaler(offline: Offline) -> None:
    linear = {"coresPerReplica": 256, "nodesPerReplica": 16, "min": 1, "max": 9}
    found = offline(kubeadm() + proportional({"linear": linear}))
    (note,) = [row for row in found.findings("note") if row["subject"] == "ConfigMap/dns-autoscaler"]
    assert note["message"] == "coresPerReplica 256, nodesPerReplica 16: these are for CoreDNS"
    patch = json.loads(json.loads(note["command"].partition(" -p '")[2][:-1])["data"]["linear"])
    assert patch == {"coresPerReplica": 1024, "nodesPerReplica": 64, "min": 2, "max": 9, "preventSinglePointFailure": True}
    assert found.report["found"]["autoscalers"] == ["dns-autoscaler"]
    assert "ConfigMap/dns-autoscaler" not in offline(kubeadm() + proportional({"linear": {**linear, "coresPerReplica": 2048, "nodesPerReplica": 64}})).said()


def test_the_horizontal_autoscaler(offline: Offline) -> None:
    metrics = [{"type": "Resource", "resource": {"name": "cpu"}}]
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "coredns"}, "minReplicas": 1, "maxReplicas": 10, "metrics": metrics}
    scaler = cluster("autoscaling/v2", "HorizontalPodAutoscaler", "dns", spec=spec)
    found = offline([*kubeadm(), scaler, *proportional({"linear": {}})])
    assert "HorizontalPodAutoscaler/dns:0: it scales by cpu between 1 and 10" in found.said("warning")
    assert "a HorizontalPodAutoscaler scales the same pods" in found.said("warning")


def test_budgets_policies_and_monitors(offline: Offline) -> None:
    labels = {"matchLabels": {"k8s-app": "kube-dns"}}
    others = {"matchExpressions": [{"key": "k8s-app", "operator": "NotIn", "values": ["kube-dns"]}]}
    monitor = {"selector": labels, "namespaceSelector": {"matchNames": ["kube-system"]}}
    more = [
        cluster("policy/v1", "PodDisruptionBudget", "dns", spec={"selector": labels, "minAvailable": 2}),
        cluster("policy/v1", "PodDisruptionBudget", "other", spec={"selector": others, "minAvailable": 2}),
        cluster("networking.k8s.io/v1", "NetworkPolicy", "dns", spec={"podSelector": labels}),
        cluster("networking.k8s.io/v1", "NetworkPolicy", "other", spec={"podSelector": others}),
        cluster("monitoring.coreos.com/v1", "ServiceMonitor", "coredns", "monitoring", spec=monitor),
        cluster("monitoring.coreos.com/v1", "ServiceMonitor", "elsewhere", "monitoring", spec={"selector": labels}),
    ]
    found = offline(kubeadm() + more)
    listed = found.report["found"]
    assert (listed["budgets"], listed["network policies"], listed["service monitors"]) == (["dns"], ["dns"], ["coredns"])
    assert "PodDisruptionBudget/dns:0: it lets no pod be evicted" in found.said("note")


@pytest.mark.parametrize(("upstream", "severity"), [("10.96.0.10", "note"), ("__PILLAR__CLUSTER__DNS__", "note"), ("10.96.0.100", "warning")])
def test_the_cache_on_every_node(offline: Offline, upstream: str, severity: str) -> None:
    found = offline(kubeadm() + node_local(upstream))
    assert found.report["found"]["caches on nodes"] == ["node-local-dns"]
    assert ("ConfigMap/node-local-dns:0: its upstreams are none of the Service's addresses (10.96.0.10)" in found.said("warning")) == (severity == "warning")


# ---- which Deployment ----


def test_a_daemon_set(offline: Offline) -> None:
    objects = kubeadm()
    objects[0]["kind"] = "DaemonSet"
    found = offline(objects)
    assert (found.status, found.report["workload"]) == (0, "DaemonSet/coredns")
    assert found.commands("Change")[0].startswith("kubectl -n kube-system set image daemonset/coredns coredns=")


def test_the_charts_labels(offline: Offline) -> None:
    """CoreDNS's chart: other labels, a port above 1024 and a container beside it."""
    objects = kubeadm()
    objects[0]["metadata"] |= {
        "name": "dns-coredns",
        "namespace": "dns",
        "labels": {"app.kubernetes.io/name": "coredns", "app.kubernetes.io/managed-by": "Helm"},
    }
    objects[0]["spec"]["template"]["spec"]["containers"].insert(0, {"name": "sidecar", "image": "busybox"})
    for row in objects[1:]:
        row["metadata"]["namespace"] = "dns"
    find(objects, "ClusterRoleBinding", "system:coredns")["subjects"][0]["namespace"] = "dns"
    found = offline(objects, "-namespace", "dns")
    assert (found.status, found.out) == (2, "")
    assert found.err == "no Deployment and no DaemonSet in the namespace dns has the labels k8s-app=kube-dns; with -deployment it is one of dns-coredns\n"
    found = offline(objects, "-namespace", "dns", "-selector", "app.kubernetes.io/name=coredns")
    assert (found.status, found.report["container"]) == (0, "coredns")
    assert "Helm manages it" in found.said("warning")
    assert offline(objects, "-namespace", "dns", "-deployment", "dns-coredns").report["workload"] == "Deployment/dns-coredns"


WRONG = [
    (("-selector", "a in"), "unable to parse requirement"),
    (("-f",), "-f which files?"),
    (("file.yaml",), "files come behind -f, not file.yaml"),
    (("-f", "/none.yaml"), "No such file or directory"),
    (("-deployment", "a", "-selector", "b"), "a name and labels exclude each other"),
    (("-kubeconfig", "/none"), "no credentials for the API server: stat /none: no such file or directory"),
]


@pytest.mark.parametrize(("words", "text"), WRONG)
def test_what_is_wrong_is_said(words: tuple[str, ...], text: str) -> None:
    found = run(*words) if words[0] != "-selector" else run("-kubeconfig", "/dev/null", *words)
    assert found.status == 2
    assert text in found.err
    assert found.out == ""


def test_without_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    found = run()
    assert (found.status, found.out) == (2, "")
    assert found.err == "no credentials for the API server: neither -kubeconfig, $KUBECONFIG nor ~/.kube/config names a file, and this is no pod\n"


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    found = run("-f", str(tmp_path / "a.yaml"))
    assert found.status == 2
    assert f"{tmp_path}/a.yaml:2:1: " in found.err
