// The apiserver program is a small Kubernetes API server for tests of cluster
// DNS servers. It puts the resources such a server reads on the published
// k8s.io/apiserver library: the same handlers, serializers, watch cache and
// etcd3 storage as kube-apiserver, without its controllers and admission.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

const loopback = "127.0.0.1"

type flags struct {
	etcdServers       string
	port              int
	httpPort          int
	dataDir           string
	kubeconfig        string
	tokenFile         string
	watchCache        bool
	clientCertAuth    bool
	denyAnonymous     bool
	maxInFlight       int
	compactInterval   time.Duration
	minRequestTimeout time.Duration
	serviceCIDRs      string
}

func parseFlags() (*flags, error) {
	f := &flags{}
	klog.InitFlags(nil)
	flag.StringVar(&f.etcdServers, "etcd-servers", "http://127.0.0.1:2379", "comma-separated etcd URLs")
	flag.IntVar(&f.port, "port", 6443, "HTTPS port on 127.0.0.1")
	flag.IntVar(&f.httpPort, "http-port", 0, "plain HTTP port on 127.0.0.1; 0 for none")
	flag.StringVar(&f.dataDir, "data-dir", "", "folder for certificates, tokens and kubeconfig (required)")
	flag.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file to write; default DATA-DIR/kubeconfig")
	flag.StringVar(&f.tokenFile, "token-auth-file", "", "CSV of token,user,uid[,groups]; default: one made in DATA-DIR")
	flag.BoolVar(&f.watchCache, "watch-cache", true, "serve lists and watches from the watch cache")
	flag.BoolVar(&f.clientCertAuth, "client-cert-auth", false, "accept client certificates signed by the CA in DATA-DIR")
	flag.BoolVar(&f.denyAnonymous, "deny-anonymous", false, "answer 401 to requests without credentials")
	flag.IntVar(&f.maxInFlight, "max-requests-inflight", 400, "limit of concurrent short requests, and half as many writes")
	flag.DurationVar(&f.compactInterval, "etcd-compaction-interval", storagebackend.DefaultCompactInterval, "age at which etcd history is compacted; 0 for never")
	flag.DurationVar(&f.minRequestTimeout, "min-request-timeout", 30*time.Minute, "a watch without timeoutSeconds ends after one to two times this")
	flag.StringVar(&f.serviceCIDRs, "service-cluster-ip-range", "10.96.0.0/12,fd00:96::/108", "IPv4 and IPv6 ranges of service addresses")
	flag.Func("feature-gates", "comma-separated NAME=true|false of the apiserver library", utilfeature.DefaultMutableFeatureGate.Set)
	flag.Parse()
	if f.dataDir == "" {
		return nil, fmt.Errorf("--data-dir is required")
	}
	if f.kubeconfig == "" {
		f.kubeconfig = filepath.Join(f.dataDir, "kubeconfig")
	}
	return f, os.MkdirAll(f.dataDir, 0o700)
}

func main() {
	f, err := parseFlags()
	if err == nil {
		err = run(genericapiserver.SetupSignalContext(), f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f *flags) error {
	creds, err := loadCredentials(f)
	if err != nil {
		return err
	}
	config, etcd, err := serverConfig(f, creds)
	if err != nil {
		return err
	}
	custom, err := customResources(config, etcd)
	if err != nil {
		return err
	}
	server, err := config.Complete(nil).New("test-apiserver", custom)
	if err != nil {
		return err
	}
	server.ShutdownTimeout = 5 * time.Second // open watches must not hold up the exit
	if err := installResources(server, config.RESTOptionsGetter, f.serviceCIDRs); err != nil {
		return err
	}
	if err := server.AddPostStartHook("bootstrap", createInitialObjects); err != nil {
		return err
	}
	prepared := server.PrepareRun()
	if f.httpPort != 0 {
		if err := servePlainHTTP(ctx, server, f.httpPort); err != nil {
			return err
		}
	}
	if err := creds.writeKubeconfig(f.kubeconfig, f.port); err != nil {
		return err
	}
	return prepared.RunWithContext(ctx)
}

func serverConfig(f *flags, creds *credentials) (*genericapiserver.Config, *options.EtcdOptions, error) {
	config := genericapiserver.NewConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.ExternalAddress = net.JoinHostPort(loopback, strconv.Itoa(f.port))
	config.MaxRequestsInFlight = f.maxInFlight
	config.MaxMutatingRequestsInFlight = f.maxInFlight / 2
	config.MinRequestTimeout = int(f.minRequestTimeout.Seconds())
	setOpenAPI(config)

	serving := options.NewSecureServingOptions()
	serving.BindAddress = net.ParseIP(loopback)
	serving.BindPort = f.port
	serving.ServerCert.CertKey = options.CertKey{CertFile: creds.serverCert, KeyFile: creds.serverKey}
	if err := serving.WithLoopback().ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, nil, err
	}
	if err := creds.applyTo(config, f); err != nil {
		return nil, nil, err
	}

	etcd := options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	etcd.StorageConfig.Transport.ServerList = strings.Split(f.etcdServers, ",")
	etcd.StorageConfig.CompactionInterval = f.compactInterval
	etcd.EnableWatchCache = f.watchCache
	storageFactory := serverstorage.NewDefaultStorageFactory(etcd.StorageConfig, protobufMediaType, codecs,
		serverstorage.NewDefaultResourceEncodingConfig(scheme), serverstorage.NewResourceConfig(), storagePrefixes)
	storageFactory.SetSerializer(serviceImports, "application/json", nil)
	if err := etcd.ApplyWithStorageFactoryTo(storageFactory, config); err != nil {
		return nil, nil, err
	}
	config.RESTOptionsGetter = typeMetaClearer{config.RESTOptionsGetter}
	return config, etcd, nil
}

// servePlainHTTP serves the same handler, with the same authentication, without
// TLS and therefore without HTTP/2.
func servePlainHTTP(ctx context.Context, server *genericapiserver.GenericAPIServer, port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	plain := &genericapiserver.DeprecatedInsecureServingInfo{Listener: listener, Name: "plain HTTP"}
	return plain.Serve(server.Handler, server.ShutdownTimeout, ctx.Done())
}
