package main

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
)

// advertisedAddress is the endpoint of the service "kubernetes", which in a
// real cluster is never a loopback address. Nothing listens there.
const advertisedAddress = "172.16.0.1"

// createInitialObjects creates what every cluster has from the start: its
// first namespaces and the service "kubernetes" with its endpoint.
func createInitialObjects(hook genericapiserver.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
		if _, err := client.CoreV1().Namespaces().Create(hook, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// Asking first, as on a restart the address below is taken already.
	if _, err := client.CoreV1().Services("default").Get(hook, "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	_, err = client.CoreV1().Services("default").Create(hook, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1",
			Ports:     []corev1.ServicePort{{Name: "https", Port: 443}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	name, protocol, ready, port := "https", corev1.ProtocolTCP, true, int32(6443)
	_, err = client.DiscoveryV1().EndpointSlices("default").Create(hook, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{advertisedAddress}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
