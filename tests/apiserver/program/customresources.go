package main

import (
	"go.opentelemetry.io/otel/trace/noop"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// customResources makes the server of CustomResourceDefinitions and of what
// they define. As in kube-apiserver it gets the requests that the main server
// does not know, and has its settings and its etcd.
func customResources(main *genericapiserver.Config, etcd *options.EtcdOptions) (*genericapiserver.GenericAPIServer, error) {
	config := *main
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	config.MergedResourceConfig = apiserver.DefaultAPIResourceConfigSource()
	namer := apiopenapi.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIConfig = nil
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config.Info.Title = "Kubernetes"

	stored := *etcd
	stored.StorageConfig.Codec = apiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	stored.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiextensionsv1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1.GroupName})
	stored.SkipHealthEndpoints = true
	if err := stored.ApplyTo(&config); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	recommended := &genericapiserver.RecommendedConfig{Config: config, SharedInformerFactory: informers.NewSharedInformerFactory(client, 0)}
	server, err := (&apiserver.Config{
		GenericConfig: recommended,
		ExtraConfig: apiserver.ExtraConfig{
			CRDRESTOptionsGetter: apiextensionsoptions.NewCRDRESTOptionsGetter(*etcd, config.ResourceTransformers, config.StorageObjectCountTracker),
			MasterCount:          1,
			ServiceResolver:      webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, noop.NewTracerProvider()),
		},
	}).Complete().New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	return server.GenericAPIServer, nil
}
