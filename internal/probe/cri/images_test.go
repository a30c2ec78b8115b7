package cri

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// images serves a list of images.
type images struct {
	runtimeapi.UnimplementedImageServiceServer

	list []*runtimeapi.Image
	err  error
}

func (i *images) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: i.list}, i.err
}

// TestImages lists the images of a runtime. A runtime that fails, hangs, or is away is an error in time.
func TestImages(t *testing.T) {
	silenceLibrary()
	listener, socket := listen(t)
	service := &images{list: []*runtimeapi.Image{
		{Id: "sha256:1", RepoTags: []string{"a:1", "b:1"}, RepoDigests: []string{"a@sha256:9"}},
		{Id: "sha256:2", RepoDigests: []string{"c@sha256:8"}},
		{Id: "sha256:3"},
	}}
	server := grpc.NewServer()
	runtimeapi.RegisterImageServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	want := []Image{
		{ID: "sha256:1", Names: []string{"a:1", "b:1"}},
		{ID: "sha256:2", Names: []string{"c@sha256:8"}},
		{ID: "sha256:3"},
	}
	if got, err := Images(t.Context(), socket); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}

	service.err = errors.New("the store is damaged")
	if got, err := Images(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "the store is damaged") {
		t.Errorf("a runtime that fails: got %v, %v; want its error", got, err)
	}

	_, silent := listen(t) // nothing accepts
	for name, at := range map[string]string{"away": filepath.Join(t.TempDir(), "none"), "silent": silent} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begun := time.Now()
		if got, err := Images(ctx, at); err == nil || time.Since(begun) > 5*time.Second {
			t.Errorf("a runtime that is %s: got %v, %v after %s; want an error", name, got, err, time.Since(begun))
		}
		cancel()
	}
}
