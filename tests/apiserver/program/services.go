package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// setServiceDefaults sets the defaults of kube-apiserver that clients which
// read services use.
func setServiceDefaults(service *corev1.Service) {
	spec := &service.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		if port.TargetPort == (intstr.IntOrString{}) {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.InternalTrafficPolicy == nil {
		policy := corev1.ServiceInternalTrafficPolicyCluster
		spec.InternalTrafficPolicy = &policy
	}
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) > 1 || len(spec.ClusterIPs) > 1 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
}

// keepClusterIPs takes the addresses over from the stored service when an
// update has none.
func keepClusterIPs(service, old *corev1.Service) {
	if service.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if service.Spec.ClusterIP == "" && len(service.Spec.ClusterIPs) == 0 {
		service.Spec.ClusterIP, service.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	if len(service.Spec.IPFamilies) == 0 {
		service.Spec.IPFamilies = old.Spec.IPFamilies
	}
}

// clusterIPAllocator assigns unique addresses to services out of one range for
// each IP family and refuses an address that is taken.
type clusterIPAllocator struct {
	services *genericregistry.Store
	ranges   map[corev1.IPFamily]netip.Prefix

	mutex sync.Mutex
	taken map[netip.Addr]bool // nil until the stored services have been read
	last  map[corev1.IPFamily]netip.Addr
}

func newClusterIPAllocator(cidrs string, services *genericregistry.Store) (*clusterIPAllocator, error) {
	a := &clusterIPAllocator{services: services, ranges: map[corev1.IPFamily]netip.Prefix{}, last: map[corev1.IPFamily]netip.Addr{}}
	for _, cidr := range strings.Split(cidrs, ",") {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, err
		}
		family := familyOf(prefix.Addr())
		a.ranges[family] = prefix.Masked()
		// As in kube-apiserver, the start of the range is for addresses
		// that services ask for.
		start := prefix.Masked().Addr()
		for range 256 {
			start = start.Next()
		}
		a.last[family] = start
	}
	return a, nil
}

func (a *clusterIPAllocator) attach() {
	a.services.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		return a.begin(ctx, obj.(*corev1.Service), nil)
	}
	a.services.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		return a.begin(ctx, obj.(*corev1.Service), old.(*corev1.Service))
	}
	a.services.AfterDelete = func(obj runtime.Object, _ *metav1.DeleteOptions) {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.release(addressesOf(obj.(*corev1.Service)))
	}
}

// begin reserves the addresses that a service to be stored needs. The function
// it returns releases those that are not needed in the end.
func (a *clusterIPAllocator) begin(ctx context.Context, service, old *corev1.Service) (genericregistry.FinishFunc, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if err := a.readStored(ctx); err != nil {
		return nil, err
	}
	var before []netip.Addr
	if old != nil {
		before = addressesOf(old)
	}
	if err := a.fill(service); err != nil {
		return nil, invalidService(service, err)
	}
	after := addressesOf(service)
	var added []netip.Addr
	for _, address := range after {
		if slices.Contains(before, address) {
			continue
		}
		if a.taken[address] {
			a.release(added)
			return nil, invalidService(service, fmt.Errorf("failed to allocate IP %s: provided IP is already allocated", address))
		}
		a.taken[address] = true
		added = append(added, address)
	}
	return func(_ context.Context, success bool) {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		if !success {
			a.release(added)
			return
		}
		for _, address := range before {
			if !slices.Contains(after, address) {
				delete(a.taken, address)
			}
		}
	}, nil
}

func (a *clusterIPAllocator) readStored(ctx context.Context) error {
	if a.taken != nil {
		return nil
	}
	list, err := a.services.List(request.WithNamespace(ctx, metav1.NamespaceAll), &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	a.taken = map[netip.Addr]bool{}
	for i := range list.(*corev1.ServiceList).Items {
		for _, address := range addressesOf(&list.(*corev1.ServiceList).Items[i]) {
			a.taken[address] = true
		}
	}
	return nil
}

// fill completes the addresses and IP families of the service.
func (a *clusterIPAllocator) fill(service *corev1.Service) error {
	spec := &service.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		spec.ClusterIP, spec.ClusterIPs = "", nil
		return nil
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	for _, text := range spec.ClusterIPs[:min(len(spec.ClusterIPs), 2)] {
		if text == corev1.ClusterIPNone {
			continue
		}
		address, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		if family := familyOf(address); !slices.Contains(spec.IPFamilies, family) {
			spec.IPFamilies = append(spec.IPFamilies, family)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == other {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	for len(spec.ClusterIPs) < len(spec.IPFamilies) {
		address, err := a.next(spec.IPFamilies[len(spec.ClusterIPs)])
		if err != nil {
			return err
		}
		spec.ClusterIPs = append(spec.ClusterIPs, address.String())
	}
	spec.ClusterIP = spec.ClusterIPs[0]
	return nil
}

func (a *clusterIPAllocator) next(family corev1.IPFamily) (netip.Addr, error) {
	prefix, ok := a.ranges[family]
	for address := a.last[family]; ok && prefix.Contains(address); {
		address = address.Next()
		if !a.taken[address] {
			a.last[family] = address
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no %s service address is left", family)
}

func (a *clusterIPAllocator) release(addresses []netip.Addr) {
	for _, address := range addresses {
		delete(a.taken, address)
	}
}

func addressesOf(service *corev1.Service) (addresses []netip.Addr) {
	for _, text := range service.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func familyOf(address netip.Addr) corev1.IPFamily {
	if address.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func invalidService(service *corev1.Service, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, service.Name,
		field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), service.Spec.ClusterIPs, err.Error())})
}
