package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"apiserver/openapi" // made by openapi-gen when the program is built
)

const mcsPackage = "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1."

// setOpenAPI makes the server serve OpenAPI documents, which kubectl and
// server-side apply need.
func setOpenAPI(config *genericapiserver.Config) {
	namer := apiopenapi.NewDefinitionNamer(namingScheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title = "Kubernetes"
	config.OpenAPIV3Config.Info.Title = "Kubernetes"
}

// openAPIDefinitions adds to the generated definitions those of the
// multi-cluster types, from whose package openapi-gen makes none. Their
// spec and status have no schema and keep unknown fields.
func openAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := openapi.GetOpenAPIDefinitions(ref)
	text := *spec.StringProperty()
	open := *spec.MapProperty(nil)
	open.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	define := func(kind string, properties map[string]spec.Schema, dependencies ...string) {
		properties["apiVersion"], properties["kind"] = text, text
		schema := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}
		schema.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
			"group": mcsv1alpha1.GroupName, "version": mcsv1alpha1.GroupVersion.Version, "kind": kind,
		}})
		definitions[mcsPackage+kind] = common.OpenAPIDefinition{Schema: schema, Dependencies: dependencies}
	}
	item, objectMeta, listMeta := mcsPackage+"ServiceImport", metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
	define("ServiceImport", map[string]spec.Schema{
		"metadata": {SchemaProps: spec.SchemaProps{Ref: ref(objectMeta)}}, "spec": open, "status": open,
	}, objectMeta)
	define("ServiceImportList", map[string]spec.Schema{
		"metadata": {SchemaProps: spec.SchemaProps{Ref: ref(listMeta)}},
		"items":    *spec.ArrayProperty(&spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(item)}}),
	}, listMeta, item)
	return definitions
}
