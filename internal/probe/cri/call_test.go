package cri

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestResponses checks what is refused of a response that gRPC's own server does not send.
func TestResponses(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  int
		body    string
		trailer map[string]string
		want    string // in the error
	}{
		{"a message", 200, "\x00\x00\x00\x00\x02ab", map[string]string{"Grpc-Status": "0"}, ""},
		{"an empty message", 200, "\x00\x00\x00\x00\x00", map[string]string{"Grpc-Status": "0"}, ""},
		{"no message", 200, "", map[string]string{"Grpc-Status": "0"}, "not one message"},
		{"half of a message", 200, "\x00\x00\x00\x00\x02a", map[string]string{"Grpc-Status": "0"}, "not one message"},
		{"two messages", 200, "\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x01a", map[string]string{"Grpc-Status": "0"}, "not one message"},
		{"a compressed message", 200, "\x01\x00\x00\x00\x02ab", map[string]string{"Grpc-Status": "0"}, "without compression"},
		{"no status", 200, "\x00\x00\x00\x00\x02ab", nil, `gRPC status ""`},
		{"another status", 200, "\x00\x00\x00\x00\x02ab", map[string]string{"Grpc-Status": "13", "Grpc-Message": "a%1Bb"}, `"13", "a\x1bb"`},
		{"not implemented", 200, "", map[string]string{"Grpc-Status": "12"}, "not implemented"},
		{"not found", 404, "", map[string]string{"Grpc-Status": "0"}, "status 404"},
		{"another place", 302, "", map[string]string{"Grpc-Status": "0"}, "status 302"},
	} {
		t.Run(test.name, func(t *testing.T) {
			listener, socket := listen(t)
			server := &http.Server{Protocols: new(http.Protocols)}
			server.Protocols.SetUnencryptedHTTP2(true)
			server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
				for name, value := range test.trailer {
					w.Header().Set(http.TrailerPrefix+name, value)
				}
			})
			go func() { _ = server.Serve(listener) }()
			defer server.Close()

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got, err := call(ctx, connect(ctx, socket), "RuntimeService/Version", maxMessage)
			if test.want == "" && (err != nil || string(got) != test.body[frameHead:]) {
				t.Errorf("got %q, %v; want %q", got, err, test.body[frameHead:])
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %q, %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

// FuzzMessages compares with the code that protoc generates.
func FuzzMessages(f *testing.F) {
	for _, message := range []proto.Message{
		&runtimeapi.VersionResponse{Version: "v1", RuntimeName: "containerd", RuntimeVersion: "2.1", RuntimeApiVersion: "v1"},
		&runtimeapi.RuntimeConfigResponse{},
		&runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{}},
		&runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: 1}},
		&runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{
			{Id: "sha256:1", RepoTags: []string{"a:1", "b:1"}, Size: 7, Pinned: true, Uid: &runtimeapi.Int64Value{Value: 1}},
			{Id: "sha256:2", RepoDigests: []string{"c@sha256:8"}},
		}},
	} {
		b, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}

	f.Fuzz(func(t *testing.T, b []byte) {
		name, version, err := parseVersion(b)
		var wantVersion runtimeapi.VersionResponse
		if proto.Unmarshal(b, &wantVersion) == nil {
			if err != nil || name != wantVersion.GetRuntimeName() || version != wantVersion.GetRuntimeVersion() {
				t.Errorf("got %q, %q, %v; want %v", name, version, err, &wantVersion)
			}
		}

		list, err := parseImages(b)
		var wantImages runtimeapi.ListImagesResponse
		if proto.Unmarshal(b, &wantImages) != nil {
			return
		}
		if err != nil || len(list) != len(wantImages.GetImages()) {
			t.Fatalf("got %v, %v; want %v", list, err, &wantImages)
		}
		for i, image := range wantImages.GetImages() {
			if list[i].ID != image.GetId() || len(image.GetRepoTags()) > 0 && len(list[i].Names) != len(image.GetRepoTags()) {
				t.Errorf("got %v, want %v", list[i], image)
			}
		}
	})
}
