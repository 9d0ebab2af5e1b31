{{- define "odradek.labels" -}}
app.kubernetes.io/name: odradek
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "odradek.zookeeper.labels" -}}
app.kubernetes.io/name: zookeeper
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: odradek
{{- end }}

{{- /* Nobody who takes a wrong one is to find out only from a broker's log. */}}
{{- define "odradek.check" -}}
{{- if and (not .Values.zookeeper.enabled) (not .Values.zookeeper.connect) }}
{{- fail "zookeeper.enabled is false: zookeeper.connect has to say where one is" }}
{{- end }}
{{- if and (or (eq .Values.inside.protocol "SSL") (eq .Values.outside.protocol "SSL")) (not .Values.tls.secret) }}
{{- fail "SSL needs tls.secret" }}
{{- end }}
{{- if and (eq .Values.outside.type "NodePort") (gt (int .Values.brokers) 10) }}
{{- fail "outside.type NodePort is for at most ten brokers" }}
{{- end }}
{{- if and (eq .Values.outside.type "LoadBalancer") (not (contains "$(KAFKA_BROKER_ID)" .Values.outside.host)) }}
{{- fail "outside.type LoadBalancer needs outside.host with $(KAFKA_BROKER_ID) in it: clients come to each broker by its own name" }}
{{- end }}
{{- if not .Values.existingConfigMap }}
{{- range $name, $usual := dict "default.replication.factor" 1 "min.insync.replicas" 1 "offsets.topic.replication.factor" 3 "transaction.state.log.min.isr" 2 "transaction.state.log.replication.factor" 3 }}
{{- $copies := int (index $.Values.settings $name | default $usual) }}
{{- if gt $copies (int $.Values.brokers) }}
{{- fail (printf "%s=%d is more than brokers=%d: give lower ones in settings, for min.insync.replicas and transaction.state.log.min.isr too" $name $copies (int $.Values.brokers)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "odradek.properties" -}}
# Of every broker. What differs (broker.id, listeners, rack) is set from the pod.
zookeeper.connect={{ ternary (printf "%s-zookeeper:2181" .Release.Name) .Values.zookeeper.connect .Values.zookeeper.enabled }}
log.dirs=/var/lib/odradek/data
metrics.host=0.0.0.0
metrics.port=7071
inter.broker.listener.name=INSIDE
{{- if .Values.tls.secret }}
config.providers=dir
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
ssl.keystore.type=PEM
ssl.keystore.key=${dir:/etc/odradek-tls:tls.key}
ssl.keystore.certificate.chain=${dir:/etc/odradek-tls:tls.crt}
ssl.truststore.type=PEM
ssl.truststore.certificates=${dir:/etc/odradek-tls:ca.crt}
ssl.client.auth={{ .Values.tls.clientAuth }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- /* Whole numbers are floats to Helm, which would write a million with an exponent. */}}
{{ $name }}={{ if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end }}
