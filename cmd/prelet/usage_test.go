package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestNoTemplateIsLinked looks into this test's own program, which is this command and its tests, for the name of a
// function: one call of what runs a template links all of text/template, and with it every exported method of every type.
func TestNoTemplateIsLinked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	name := func(parts ...string) []byte { return []byte(strings.Join(parts, ".")) } // so that the test does not hold it
	if !bytes.Contains(program, name("main", "TestNoTemplateIsLinked")) && !bytes.Contains(program, name("cmd/prelet", "TestNoTemplateIsLinked")) {
		t.Fatal("the names of functions are not in this program: the test would see nothing")
	}
	if bytes.Contains(program, name("text/template", "(*state)", "evalField")) {
		t.Error("text/template is linked")
	}
}
