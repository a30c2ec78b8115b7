package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const noAssertion = "NOASSERTION"

// writeSBOM writes an SPDX document: one package for the project with its programs as files, and one for each library.
func writeSBOM(out io.Writer, name, version string, programs []string) error {
	libraries, err := readPrograms(programs)
	if err != nil {
		return err
	}
	created, err := sourceTime()
	if err != nil {
		return err
	}

	root := newPackage(name, version)
	root.PackageDownloadLocation = "git+https://" + project
	root.PackageLicenseDeclared = apache
	document := &v2_3.Document{
		SPDXVersion:    v2_3.Version,
		DataLicense:    v2_3.DataLicense,
		SPDXIdentifier: "DOCUMENT",
		DocumentName:   name + "-" + version,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "prelet-release"}},
			Created:  created.Format(time.RFC3339),
		},
		Packages:      []*v2_3.Package{root},
		Relationships: []*v2_3.Relationship{relate("DOCUMENT", "DESCRIBES", root.PackageSPDXIdentifier)},
	}

	digest := sha256.New()
	for i, program := range programs {
		sum, err := sumFile(program)
		if err != nil {
			return err
		}
		digest.Write(sum[:])

		file := &v2_3.File{
			FileName:           "./" + filepath.Base(program),
			FileSPDXIdentifier: common.ElementID("File-" + strconv.Itoa(i)),
			FileTypes:          []string{"BINARY"},
			Checksums:          []common.Checksum{{Algorithm: common.SHA256, Value: fmt.Sprintf("%x", sum)}},
			LicenseConcluded:   noAssertion,
			FileCopyrightText:  noAssertion,
		}
		document.Files = append(document.Files, file)
		contains := relate(root.PackageSPDXIdentifier, "CONTAINS", file.FileSPDXIdentifier)
		document.Relationships = append(document.Relationships, contains)
	}
	id := digest.Sum(nil)[:8]
	document.DocumentNamespace = fmt.Sprintf("https://%s/spdx/%s-%x", project, document.DocumentName, id)

	for _, l := range libraries {
		p := newPackage(l.path, l.version)
		p.PackageLicenseDeclared = strings.Join(l.licences, " AND ")
		if l.path != goName {
			p.PackageExternalReferences = []*v2_3.PackageExternalReference{{
				Category: common.CategoryPackageManager,
				RefType:  common.TypePackageManagerPURL,
				Locator:  "pkg:golang/" + l.path + "@" + l.version,
			}}
		}
		document.Packages = append(document.Packages, p)
		needs := relate(root.PackageSPDXIdentifier, "DEPENDS_ON", p.PackageSPDXIdentifier)
		document.Relationships = append(document.Relationships, needs)
	}

	return json.Write(document, out, json.Indent("  "))
}

// newPackage returns a package without files.
func newPackage(name, version string) *v2_3.Package {
	id := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, "Package-"+name+"-"+version)

	return &v2_3.Package{
		PackageName:             name,
		PackageVersion:          version,
		PackageSPDXIdentifier:   common.ElementID(id),
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared:  noAssertion,
		PackageCopyrightText:    noAssertion,
	}
}

func relate(from common.ElementID, how string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA:         common.MakeDocElementID("", string(from)),
		RefB:         common.MakeDocElementID("", string(to)),
		Relationship: how,
	}
}

func sumFile(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}

	return [sha256.Size]byte(h.Sum(nil)), nil
}

// sourceTime returns the time of the release: that of its commit, $SOURCE_DATE_EPOCH.
func sourceTime() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w. Set it to the time of the commit", err)
	}

	return time.Unix(seconds, 0).UTC(), nil
}
