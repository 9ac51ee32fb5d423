package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	adminUser  = "admin"
	adminGroup = "system:masters"
)

// credentials names the files of the data folder that authenticate the server
// and its clients. They are kept over a restart, so that clients stay valid.
type credentials struct {
	caCert, caKey         string
	serverCert, serverKey string
	clientCert, clientKey string
	tokens                string // CSV of token,user,uid,groups
	token                 string // the first of them, for the kubeconfig
	useClientCert         bool
}

func loadCredentials(f *flags) (*credentials, error) {
	in := func(name string) string { return filepath.Join(f.dataDir, name) }
	c := &credentials{
		caCert: in("ca.crt"), caKey: in("ca.key"),
		serverCert: in("server.crt"), serverKey: in("server.key"),
		clientCert: in("client.crt"), clientKey: in("client.key"),
		tokens: f.tokenFile, useClientCert: f.clientCertAuth,
	}
	if _, err := os.Stat(c.serverKey); errors.Is(err, os.ErrNotExist) {
		if err := c.makeCertificates(); err != nil {
			return nil, fmt.Errorf("making certificates: %w", err)
		}
	}
	if c.tokens == "" {
		c.tokens = in("tokens.csv")
		if err := makeTokens(c.tokens); err != nil {
			return nil, err
		}
	}
	tokens, err := os.ReadFile(c.tokens)
	if err != nil {
		return nil, err
	}
	c.token, _, _ = strings.Cut(string(tokens), ",")
	return c, os.WriteFile(in("token"), []byte(c.token), 0o600)
}

func makeTokens(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	line := fmt.Sprintf("%s,%s,1,%s\n", rand.Text(), adminUser, adminGroup)
	return os.WriteFile(file, []byte(line), 0o600)
}

func (c *credentials) makeCertificates() error {
	caKey, err := newKey(c.caKey)
	if err != nil {
		return err
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "test-apiserver-ca"}, caKey)
	if err != nil {
		return err
	}
	if err := writeCertificate(c.caCert, ca.Raw); err != nil {
		return err
	}
	err = issue(ca, caKey, c.clientCert, c.clientKey, &x509.Certificate{
		Subject:     pkix.Name{CommonName: adminUser, Organization: []string{adminGroup}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	return issue(ca, caKey, c.serverCert, c.serverKey, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
	})
}

func newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return key, keyutil.WriteKey(file, pem)
}

func writeCertificate(file string, der []byte) error {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	pem, err := certutil.EncodeCertificates(certificate)
	if err != nil {
		return err
	}
	return certutil.WriteCert(file, pem)
}

// issue writes a key and a certificate made from the template and signed by the CA.
func issue(ca *x509.Certificate, caKey crypto.Signer, certFile, keyFile string, template *x509.Certificate) error {
	key, err := newKey(keyFile)
	if err != nil {
		return err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template.NotBefore = ca.NotBefore
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	return writeCertificate(certFile, der)
}

// applyTo sets how clients authenticate (by certificate, by token or not at
// all) and authorizes each of them for everything.
func (c *credentials) applyTo(config *genericapiserver.Config, f *flags) error {
	var methods []authenticator.Request
	if f.clientCertAuth {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", c.caCert)
		if err != nil {
			return err
		}
		config.SecureServing.ClientCA = ca
		methods = append(methods, x509request.NewDynamic(ca.VerifyOptions, x509request.CommonNameUserConversion))
	}
	tokens, err := tokenfile.NewCSV(c.tokens)
	if err != nil {
		return err
	}
	methods = append(methods, bearertoken.New(tokens))
	config.Authentication.Authenticator = group.NewAuthenticatedGroupAdder(union.New(methods...))
	if !f.denyAnonymous {
		config.Authentication.Authenticator = union.NewFailOnError(config.Authentication.Authenticator, anonymous.NewAuthenticator(nil))
	}
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	return nil
}

func (c *credentials) writeKubeconfig(file string, port int) error {
	absolute := func(path string) string {
		if full, err := filepath.Abs(path); err == nil {
			return full
		}
		return path
	}
	user := &clientcmdapi.AuthInfo{Token: c.token}
	if c.useClientCert {
		user = &clientcmdapi.AuthInfo{ClientCertificate: absolute(c.clientCert), ClientKey: absolute(c.clientKey)}
	}
	const name = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:               fmt.Sprintf("https://%s:%d", loopback, port),
		CertificateAuthority: absolute(c.caCert),
	}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}
