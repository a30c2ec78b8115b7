module github.com/prelet/prelet/tools/kubetables

go 1.26
