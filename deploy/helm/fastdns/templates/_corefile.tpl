{{/* The Corefile, from `extraConfig` and `servers`. */}}

{{- define "fastdns.corefile" -}}
{{- range $directive, $given := .Values.extraConfig }}
{{ $directive }}{{ with $given.parameters }} {{ . }}{{ end }}
{{- end }}
{{- $snapshot := (fromJson (include "fastdns.ours" .)).snapshot -}}
{{- range $number, $server := .Values.servers }}
{{- $port := "" -}}
{{- if $server.port -}}{{- $port = printf ":%v" $server.port -}}{{- end }}
{{ range $server.zones | default (list dict) }}{{ .scheme | default "" }}{{ .zone | default "." }}{{ $port }} {{ end }}{
{{- range $server.plugins }}
{{- $block := .configBlock | default "" | trim -}}
{{- if and (eq .name "kubernetes") $snapshot.enabled -}}
{{- $block = printf "%s\nsnapshot %s/kubernetes-%d" $block $snapshot.path $number | trim -}}
{{- end }}
    {{ .name }}{{ if kindIs "float64" .parameters }} {{ toJson .parameters }}{{ else if .parameters }} {{ .parameters }}{{ end }}
{{- with $block }} {
{{ . | indent 8 }}
    }
{{- end }}
{{- end }}
}
{{- end }}
{{- end -}}

{{/* The listening ports, as JSON: port to {udp, tcp, servicePort, nodePort, hostPort, metrics}. */}}
{{- define "fastdns.listeners" -}}
{{- $all := dict -}}
{{- range .Values.servers -}}
{{- $port := .port | default 53 | toString -}}
{{- $entry := get $all $port | default dict -}}
{{- if not (hasKey $entry "servicePort") -}}{{- $_ := set $entry "servicePort" (.servicePort | default .port | default 53) -}}{{- end -}}
{{- range .zones -}}
{{- $scheme := .scheme | default "dns://" -}}
{{- if has $scheme (list "dns://" "quic://" "https3://") -}}{{- $_ := set $entry "udp" true -}}{{- end -}}
{{- if or .use_tcp (has $scheme (list "tls://" "grpc://" "https://")) -}}{{- $_ := set $entry "tcp" true -}}{{- end -}}
{{- end -}}
{{- if not (or $entry.udp $entry.tcp) -}}{{- $_ := set $entry "udp" true -}}{{- end -}}
{{- with .nodePort -}}{{- $_ := set $entry "nodePort" . -}}{{- end -}}
{{- with .hostPort -}}{{- $_ := set $entry "hostPort" . -}}{{- end -}}
{{- $_ := set $all $port $entry -}}
{{- range .plugins -}}
{{- if eq .name "prometheus" -}}
{{- $metrics := .parameters | default "localhost:9153" | toString | splitList ":" | last -}}
{{- if not (hasKey $all $metrics) -}}{{- $_ := set $all $metrics (dict "tcp" true "metrics" true) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* Ports of the container. */}}
{{- define "fastdns.containerPorts" -}}
{{- range $port, $entry := fromJson (include "fastdns.listeners" .) -}}
{{- range $protocol := list "udp" "tcp" -}}
{{- if index $entry $protocol }}
- name: {{ $protocol }}-{{ $port }}
  containerPort: {{ $port }}
  protocol: {{ upper $protocol }}
  {{- with $entry.hostPort }}
  hostPort: {{ . }}
  {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Ports of the Service: those of the container without metrics. */}}
{{- define "fastdns.servicePorts" -}}
{{- range $port, $entry := fromJson (include "fastdns.listeners" .) -}}
{{- range $protocol := list "udp" "tcp" -}}
{{- if and (index $entry $protocol) (not $entry.metrics) }}
- name: {{ $protocol }}-{{ $port }}
  port: {{ $entry.servicePort }}
  protocol: {{ upper $protocol }}
  targetPort: {{ $port }}
  {{- with $entry.nodePort }}
  nodePort: {{ . }}
  {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
