{{/* Names and labels. They are the same as in CoreDNS's chart, so that an upgrade changes existing objects in place. */}}

{{/* The values under `fastdns`, as JSON. With --reuse-values on a release of CoreDNS's chart neither they nor their defaults exist. */}}
{{- define "fastdns.ours" -}}
{{- $snapshot := dict "enabled" false "path" "/var/lib/fastdns" "volume" (dict) -}}
{{- $rbac := dict "minimal" false "pods" false "namespaces" (list) -}}
{{- $test := dict "image" "" "name" "kubernetes.default.svc.cluster.local" -}}
{{- $ours := mergeOverwrite (dict "workers" 0 "snapshot" $snapshot "rbac" $rbac "test" $test) (deepCopy (.Values.fastdns | default dict)) -}}
{{- if not $ours.snapshot.volume -}}
{{- $_ := set $ours.snapshot "volume" (dict "emptyDir" (dict "sizeLimit" "256Mi")) -}}
{{- end -}}
{{- toJson $ours -}}
{{- end -}}

{{- define "fastdns.name" -}}
{{- .Values.nameOverride | default "coredns" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fastdns.fullname" -}}
{{- $name := .Values.nameOverride | default "coredns" -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fastdns.deployment" -}}
{{- .Values.deployment.name | default (include "fastdns.fullname" .) -}}
{{- end -}}

{{- define "fastdns.k8sApp" -}}
{{- .Values.k8sAppLabelOverride | default "coredns" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fastdns.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "fastdns.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "fastdns.clusterRole" -}}
{{- .Values.clusterRole.nameOverride | default (include "fastdns.fullname" .) -}}
{{- end -}}

{{/* The selector of the pods: (list CONTEXT SUFFIX), the suffix empty or "-autoscaler". */}}
{{- define "fastdns.selector" -}}
{{- $top := index . 0 -}}{{- $suffix := index . 1 -}}
app.kubernetes.io/instance: {{ $top.Release.Name | quote }}
app.kubernetes.io/name: {{ include "fastdns.name" $top }}{{ $suffix }}
{{- if $top.Values.isClusterService }}
k8s-app: {{ include "fastdns.k8sApp" $top }}{{ $suffix }}
{{- end }}
{{- end -}}

{{/* A metadata block: (dict "top" CONTEXT "name" NAME), and optionally "namespace" (false: none), "suffix", "labels", "annotations". */}}
{{- define "fastdns.metadata" -}}
{{- $top := .top -}}
{{- $labels := fromYaml (include "fastdns.selector" (list $top (.suffix | default ""))) -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $top.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $top.Chart.Name ($top.Chart.Version | replace "+" "_")) -}}
{{- if $top.Values.isClusterService -}}
{{- $_ := set $labels "kubernetes.io/cluster-service" "true" -}}
{{- $_ := set $labels "kubernetes.io/name" "CoreDNS" -}}
{{- end -}}
{{- $labels = mergeOverwrite $labels ($top.Values.customLabels | default dict) (.labels | default dict) -}}
{{- $annotations := mergeOverwrite (dict) ($top.Values.customAnnotations | default dict) (.annotations | default dict) -}}
name: {{ .name }}
{{- $namespace := $top.Release.Namespace -}}
{{- if hasKey . "namespace" -}}{{- $namespace = .namespace -}}{{- end -}}
{{- with $namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Labels of pods. */}}
{{- define "fastdns.podLabels" -}}
{{- $top := index . 0 -}}{{- $suffix := index . 1 -}}
{{- $labels := mergeOverwrite (dict) ($top.Values.customLabels | default dict) (index . 2 | default dict) -}}
{{- toYaml (mergeOverwrite $labels (fromYaml (include "fastdns.selector" (list $top $suffix)))) -}}
{{- end -}}
