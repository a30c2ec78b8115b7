package write

import "testing"

// TestParseLocation compares locations with URLs that mean the same to containerd. The library of CRI-O 1.34 made names
// of images of all accepted locations.
func TestParseLocation(t *testing.T) {
	for _, c := range []struct {
		url        string
		isWhole    bool
		location   string // "": refused
		isInsecure bool
	}{
		{url: "https://mirror.example", location: "mirror.example"},
		{url: "https://mirror.example/", location: "mirror.example"},
		{url: "https://mirror.example/v2", location: "mirror.example"},
		{url: "https://mirror.example/v2/", isWhole: true, location: "mirror.example"},
		{url: "https://mirror.example:443/v2/a__b/c-d", isWhole: true, location: "mirror.example:443/a__b/c-d"},
		{url: "https://mirror.example/v2/hub", location: "mirror.example/hub/v2"}, // the API is at /v2/hub/v2
		{url: "http://mirror:5000", location: "mirror:5000", isInsecure: true},
		{url: "http://localhost", location: "localhost", isInsecure: true},
		{url: "https://Mirror.example", location: "Mirror.example"},
		{url: "https://index.docker.io", location: "docker.io"}, // another name is not canonical

		{url: "https://mirror.example", isWhole: true},
		{url: "https://mirror.example/hub"},
		{url: "https://mirror.example/hub", isWhole: true},
		{url: "https://mirror.example/hub/v2"},
		{url: "https://mirror.example/v20", isWhole: true},
		{url: "https://mirror.example/v2/Hub", isWhole: true},
		{url: "https://mirror.example/v2/a%20b", isWhole: true},
		{url: "https://mirror"},
		{url: "https://a_b.example"},
		{url: "https://a.example."},
		{url: "https://[fd00::1]:5000"},
		{url: "https://user@mirror.example"},
		{url: "https://mirror.example?ns=docker.io"},
	} {
		location, isInsecure, err := parseLocation(c.url, c.isWhole)
		if location != c.location || isInsecure != c.isInsecure || (err == nil) != (c.location != "") {
			t.Errorf("%s, whole path %t: got %q, insecure %t, %v; want %q, insecure %t",
				c.url, c.isWhole, location, isInsecure, err, c.location, c.isInsecure)
		}
	}
}
