package server

import (
	"encoding/json"
	"slices"
)

// The parts of the Language Server Protocol, version 3.17, that this server uses. Positions are zero-based lines and
// UTF-16 code units, which every client supports.

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string `json:"uri"`
	Range span   `json:"range"`
}

type initializeParams struct {
	RootURI          string            `json:"rootUri"`
	WorkspaceFolders []workspaceFolder `json:"workspaceFolders"`
	Capabilities     struct {
		TextDocument struct {
			Completion struct {
				CompletionItem struct {
					SnippetSupport bool `json:"snippetSupport"`
				} `json:"completionItem"`
			} `json:"completion"`
		} `json:"textDocument"`
	} `json:"capabilities"`
	InitializationOptions json.RawMessage `json:"initializationOptions"` // settings
}

type workspaceFolder struct {
	URI string `json:"uri"`
}

// roots returns the folders of the workspace; the root of the file system without any.
func (p initializeParams) roots() []string {
	var out []string
	for _, f := range append(p.WorkspaceFolders, workspaceFolder{URI: p.RootURI}) {
		if folder, ok := pathOf(f.URI); ok && !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	if len(out) == 0 {
		out = []string{"/"}
	}

	return out
}

type settings struct {
	// Config lists the files and folders of the site, relative to each folder of the workspace, as --config does.
	// Without it, the site of a file is its folder.
	Config []string `json:"config"`
	// KubeletVersion is the kubelet that the site is checked for, as --kubelet-version.
	KubeletVersion string `json:"kubeletVersion"`
}

// syncFull makes the client send the whole text after each change: a site's file has at most 256 KiB.
const syncFull = 1

type semanticTokens struct {
	Data []int `json:"data"`
}

type textDocument struct {
	URI     string `json:"uri"`
	Version int    `json:"version"` // of didOpen and didChange
	Text    string `json:"text"`    // of didOpen
}

// documentParams are the parameters of a message about a document, as far as its method has them.
type documentParams struct {
	TextDocument   textDocument `json:"textDocument"`
	ContentChanges []struct {
		Text string `json:"text"`
	} `json:"contentChanges"` // of didChange
	Position position `json:"position"`
	NewName  string   `json:"newName"` // of rename
	Context  struct {
		IncludeDeclaration bool `json:"includeDeclaration"` // of references
	} `json:"context"`
}

type configurationParams struct {
	Settings struct {
		Prelet json.RawMessage `json:"prelet"` // settings
	} `json:"settings"`
}

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// markdown returns a text in Markdown; nil for "".
func markdown(text string) *markup {
	if text == "" {
		return nil
	}

	return &markup{Kind: "markdown", Value: text}
}

type hover struct {
	Contents *markup `json:"contents"`
	Range    span    `json:"range"`
}

type textEdit struct {
	Range   span   `json:"range"`
	NewText string `json:"newText"`
}

type workspaceEdit struct {
	Changes map[string][]textEdit `json:"changes"`
}

type completionList struct {
	IsIncomplete bool             `json:"isIncomplete"`
	Items        []completionItem `json:"items"`
}

type completionItem struct {
	Label            string    `json:"label"`
	Kind             int       `json:"kind,omitempty"`
	Detail           string    `json:"detail,omitempty"`
	Documentation    *markup   `json:"documentation,omitempty"`
	InsertTextFormat int       `json:"insertTextFormat,omitempty"`
	TextEdit         *textEdit `json:"textEdit,omitempty"`
	Command          *command  `json:"command,omitempty"`
}

// command makes the editor do something after a completion, such as to complete again.
type command struct {
	Title   string `json:"title"`
	Command string `json:"command"`
}

// The kinds of completion items and symbols, by their numbers in the protocol.
const (
	kindFunction  = 3
	kindField     = 5
	kindModule    = 9
	kindValue     = 12
	kindKeyword   = 14
	kindReference = 18
	kindEnum      = 20

	plainText = 1
	snippet   = 2

	symbolProperty = 7
	symbolObject   = 19
)

type signatureHelp struct {
	Signatures      []signature `json:"signatures"`
	ActiveSignature int         `json:"activeSignature"`
	ActiveParameter int         `json:"activeParameter"`
}

type signature struct {
	Label         string      `json:"label"`
	Documentation *markup     `json:"documentation,omitempty"`
	Parameters    []parameter `json:"parameters,omitempty"`
}

type parameter struct {
	Label string `json:"label"`
}

type documentSymbol struct {
	Name           string           `json:"name"`
	Kind           int              `json:"kind"`
	Range          span             `json:"range"`
	SelectionRange span             `json:"selectionRange"`
	Children       []documentSymbol `json:"children,omitempty"`
}

// messageError is the type of a message about an error.
const messageError = 1

type showMessageParams struct {
	Type    int    `json:"type"`
	Message string `json:"message"`
}

type publishParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

// The severities of a diagnostic.
const (
	severityError       = 1
	severityWarning     = 2
	severityInformation = 3
)

type diagnostic struct {
	Range           span             `json:"range"`
	Severity        int              `json:"severity"`
	Code            string           `json:"code"`
	CodeDescription *codeDescription `json:"codeDescription,omitempty"`
	Source          string           `json:"source"`
	Message         string           `json:"message"`
}

type codeDescription struct {
	Href string `json:"href"`
}
