module github.com/prelet/prelet/tools/site

go 1.26

require github.com/yuin/goldmark v1.7.13
