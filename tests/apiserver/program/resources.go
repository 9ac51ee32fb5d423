package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

const protobufMediaType = "application/vnd.kubernetes.protobuf"

// resource describes one kind of object that the server stores. The external
// Go type serves as the internal one too, so nothing is ever converted.
type resource struct {
	groupVersion schema.GroupVersion
	name         string
	singular     string
	shortNames   []string
	clusterWide  bool
	// putCreates lets an update of a missing object create it.
	putCreates   bool
	validateName validation.ValidateNameFunc
	new, newList func() runtime.Object
	// selectable returns what field selectors see beside the object's name.
	selectable func(runtime.Object) fields.Set
}

var resources = []resource{
	{groupVersion: corev1.SchemeGroupVersion, name: "namespaces", singular: "namespace", shortNames: []string{"ns"},
		clusterWide: true, validateName: validation.NameIsDNSLabel,
		new:     func() runtime.Object { return &corev1.Namespace{} },
		newList: func() runtime.Object { return &corev1.NamespaceList{} },
		selectable: func(o runtime.Object) fields.Set {
			return fields.Set{"status.phase": string(o.(*corev1.Namespace).Status.Phase)}
		}},
	{groupVersion: corev1.SchemeGroupVersion, name: "services", singular: "service", shortNames: []string{"svc"},
		validateName: validation.NameIsDNS1035Label,
		new:          func() runtime.Object { return &corev1.Service{} },
		newList:      func() runtime.Object { return &corev1.ServiceList{} },
		selectable: func(o runtime.Object) fields.Set {
			spec := o.(*corev1.Service).Spec
			return fields.Set{"spec.clusterIP": spec.ClusterIP, "spec.type": string(spec.Type)}
		}},
	{groupVersion: corev1.SchemeGroupVersion, name: "pods", singular: "pod", shortNames: []string{"po"},
		validateName: validation.NameIsDNSSubdomain,
		new:          func() runtime.Object { return &corev1.Pod{} },
		newList:      func() runtime.Object { return &corev1.PodList{} },
		selectable: func(o runtime.Object) fields.Set {
			pod := o.(*corev1.Pod)
			return fields.Set{"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase), "status.podIP": pod.Status.PodIP}
		}},
	{groupVersion: corev1.SchemeGroupVersion, name: "endpoints", singular: "endpoints", shortNames: []string{"ep"},
		putCreates: true, validateName: validation.NameIsDNSSubdomain,
		new:     func() runtime.Object { return &corev1.Endpoints{} },
		newList: func() runtime.Object { return &corev1.EndpointsList{} }},
	{groupVersion: corev1.SchemeGroupVersion, name: "nodes", singular: "node", shortNames: []string{"no"},
		clusterWide: true, validateName: validation.NameIsDNSSubdomain,
		new:     func() runtime.Object { return &corev1.Node{} },
		newList: func() runtime.Object { return &corev1.NodeList{} }},
	{groupVersion: corev1.SchemeGroupVersion, name: "configmaps", singular: "configmap", shortNames: []string{"cm"},
		validateName: validation.NameIsDNSSubdomain,
		new:          func() runtime.Object { return &corev1.ConfigMap{} },
		newList:      func() runtime.Object { return &corev1.ConfigMapList{} }},
	{groupVersion: discoveryv1.SchemeGroupVersion, name: "endpointslices", singular: "endpointslice",
		validateName: validation.NameIsDNSSubdomain,
		new:          func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		newList:      func() runtime.Object { return &discoveryv1.EndpointSliceList{} }},
	{groupVersion: coordinationv1.SchemeGroupVersion, name: "leases", singular: "lease",
		putCreates: true, validateName: validation.NameIsDNSSubdomain,
		new:     func() runtime.Object { return &coordinationv1.Lease{} },
		newList: func() runtime.Object { return &coordinationv1.LeaseList{} }},
	{groupVersion: appsv1.SchemeGroupVersion, name: "deployments", singular: "deployment", shortNames: []string{"deploy"},
		validateName: validation.NameIsDNSSubdomain,
		new:          func() runtime.Object { return &appsv1.Deployment{} },
		newList:      func() runtime.Object { return &appsv1.DeploymentList{} }},
	{groupVersion: networkingv1.SchemeGroupVersion, name: "ingresses", singular: "ingress", shortNames: []string{"ing"},
		validateName: validation.NameIsDNSSubdomain,
		new:          func() runtime.Object { return &networkingv1.Ingress{} },
		newList:      func() runtime.Object { return &networkingv1.IngressList{} }},
	{groupVersion: mcsv1alpha1.SchemeGroupVersion, name: "serviceimports", singular: "serviceimport", shortNames: []string{"svcim", "svcimport"},
		validateName: validation.NameIsDNS1035Label,
		new:          func() runtime.Object { return &mcsv1alpha1.ServiceImport{} },
		newList:      func() runtime.Object { return &mcsv1alpha1.ServiceImportList{} }},
}

var (
	// scheme has every kind twice, as its published version and as the
	// internal version that the library asks for. namingScheme, which names
	// the kinds in OpenAPI, has the published ones only.
	scheme, namingScheme = runtime.NewScheme(), runtime.NewScheme()
	codecs               = serializer.NewCodecFactory(scheme)

	serviceImports = mcsv1alpha1.Resource("serviceimports")
	// storagePrefixes are the etcd folders that kube-apiserver uses and that
	// are not named like the resource.
	storagePrefixes = map[schema.GroupResource]string{
		corev1.Resource("services"):  "services/specs",
		corev1.Resource("endpoints"): "services/endpoints",
		corev1.Resource("nodes"):     "minions",
	}
)

func init() {
	published := runtime.NewSchemeBuilder(corev1.AddToScheme, discoveryv1.AddToScheme,
		coordinationv1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, mcsv1alpha1.Install)
	utilruntime.Must(published.AddToScheme(scheme))
	utilruntime.Must(published.AddToScheme(namingScheme))
	for _, r := range resources {
		internal := schema.GroupVersion{Group: r.groupVersion.Group, Version: runtime.APIVersionInternal}
		scheme.AddKnownTypes(internal, r.new(), r.newList())
		utilruntime.Must(scheme.SetVersionPriority(r.groupVersion))
		if r.selectable != nil {
			kinds, _, err := scheme.ObjectKinds(r.new())
			utilruntime.Must(err)
			known := r.selectable(r.new())
			for _, kind := range kinds {
				utilruntime.Must(scheme.AddFieldLabelConversionFunc(kind, func(label, value string) (string, string, error) {
					if known.Has(label) {
						return label, value, nil
					}
					return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
				}))
			}
		}
	}
	scheme.AddTypeDefaultingFunc(&corev1.Service{}, func(o any) { setServiceDefaults(o.(*corev1.Service)) })
	scheme.AddTypeDefaultingFunc(&corev1.Namespace{}, func(o any) { o.(*corev1.Namespace).Status.Phase = corev1.NamespaceActive })
}

// strategy has the hooks around the storage of an object. The validation of
// kube-apiserver is not published, so only names are checked.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource
}

func (s strategy) NamespaceScoped() bool        { return !s.clusterWide }
func (s strategy) AllowCreateOnUpdate() bool    { return s.putCreates }
func (strategy) AllowUnconditionalUpdate() bool { return true }
func (strategy) Canonicalize(runtime.Object)    {}

func (strategy) PrepareForCreate(context.Context, runtime.Object) {}
func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if service, ok := obj.(*corev1.Service); ok {
		keepClusterIPs(service, old.(*corev1.Service))
	}
}

func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	object, err := meta.Accessor(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidateObjectMetaAccessor(object, !s.clusterWide, s.validateName, field.NewPath("metadata"))
}
func (strategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// attributes returns what label and field selectors are matched with.
func (r resource) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{}
	if r.selectable != nil {
		selectable = r.selectable(obj)
	}
	selectable["metadata.name"] = object.GetName()
	if !r.clusterWide {
		selectable["metadata.namespace"] = object.GetNamespace()
	}
	return object.GetLabels(), selectable, nil
}

// resourceStore adds to the library's store the names that kubectl accepts.
type resourceStore struct {
	*genericregistry.Store
	shortNames []string
}

func (s resourceStore) ShortNames() []string { return s.shortNames }

func newStore(r resource, getter generic.RESTOptionsGetter) (resourceStore, error) {
	groupResource := r.groupVersion.WithResource(r.name).GroupResource()
	strategy := strategy{scheme, names.SimpleNameGenerator, r}
	store := &genericregistry.Store{
		NewFunc:     r.new,
		NewListFunc: r.newList,
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: r.attributes}
		},
		DefaultQualifiedResource:  groupResource,
		SingularQualifiedResource: r.groupVersion.WithResource(r.singular).GroupResource(),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		TableConvertor:            rest.NewDefaultTableConvertor(groupResource),
	}
	err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: r.attributes})
	return resourceStore{store, r.shortNames}, err
}

func installResources(server *genericapiserver.GenericAPIServer, getter generic.RESTOptionsGetter, serviceCIDRs string) error {
	stores := map[schema.GroupVersion]map[string]rest.Storage{}
	var namespaced []resourceStore
	for _, r := range resources {
		store, err := newStore(r, getter)
		if err != nil {
			return err
		}
		if !r.clusterWide {
			namespaced = append(namespaced, store)
		}
		if r.name == "services" {
			allocator, err := newClusterIPAllocator(serviceCIDRs, store.Store)
			if err != nil {
				return err
			}
			allocator.attach()
		}
		if stores[r.groupVersion] == nil {
			stores[r.groupVersion] = map[string]rest.Storage{}
		}
		stores[r.groupVersion][r.name] = store
	}
	namespaces := stores[corev1.SchemeGroupVersion]["namespaces"].(resourceStore)
	stores[corev1.SchemeGroupVersion]["namespaces"] = namespaceStore{namespaces, namespaced}

	for groupVersion, byName := range stores {
		group := genericapiserver.NewDefaultAPIGroupInfo(groupVersion.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
		group.PrioritizedVersions = []schema.GroupVersion{groupVersion}
		group.VersionedResourcesStorageMap[groupVersion.Version] = byName
		var err error
		switch groupVersion.Group {
		case corev1.GroupName:
			err = server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, &group)
		case mcsv1alpha1.GroupName:
			group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
			fallthrough
		default:
			err = server.InstallAPIGroup(&group)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namespaceStore deletes what is in a namespace before the namespace itself,
// as a controller does in a real cluster.
type namespaceStore struct {
	resourceStore
	namespaced []resourceStore
}

func (s namespaceStore) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	inside := request.WithNamespace(ctx, name)
	for _, store := range s.namespaced {
		if _, err := store.DeleteCollection(inside, rest.ValidateAllObjectFunc, options.DeepCopy(), &metainternalversion.ListOptions{}); err != nil {
			return nil, false, err
		}
	}
	return s.resourceStore.Delete(ctx, name, validate, options)
}

// withoutProtobuf serves types that, like all custom resources, have no
// protobuf encoding.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	var kept []runtime.SerializerInfo
	for _, info := range s.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType != protobufMediaType {
			kept = append(kept, info)
		}
	}
	return kept
}

// typeMetaClearer makes storage return objects without kind and apiVersion,
// as internal types are: the items of lists must not show them.
type typeMetaClearer struct{ generic.RESTOptionsGetter }

func (c typeMetaClearer) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := c.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil {
		options.StorageConfig.Codec = typeMetaClearingCodec{options.StorageConfig.Codec}
	}
	return options, err
}

type typeMetaClearingCodec struct{ runtime.Codec }

func (c typeMetaClearingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return object, kind, err
}
