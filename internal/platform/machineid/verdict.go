package machineid

import (
	"fmt"
	"strings"
)

// Mark is how one mark of the machine here compares with that of an identity on the disk.
type Mark int8

// The states of a mark. A mark that one of the two does not have is absent.
const (
	Absent Mark = iota
	Agrees
	Differs
)

// Marks are all marks of the machine here, compared with those of an identity.
type Marks struct {
	ID      Mark // the machine id; without a generation, whether kubelet.conf is older than it
	Product Mark // the product uuid
	Host    Mark // the host name, compared with that of the generation
	Node    Mark // the host name, compared with the node in the certificate of kubelet.conf
	Site    Mark // without a generation, the name that the site gives this node, compared with that node
}

// Verdict is the owner of an identity, as far as it is known.
type Verdict int8

// The verdicts.
const (
	ThisMachine Verdict = iota
	NotKnown
	AnotherMachine
)

func (v Verdict) String() string {
	return [...]string{"this machine", "not known", "another machine"}[v]
}

// Judge returns whose an identity is. Its table is in docs/image-builders/trust.md, which a test compares.
func (m Marks) Judge() Verdict {
	switch agree, differ := m.count(); {
	case differ == 0:
		return ThisMachine
	case agree >= 1 && differ == 1:
		return ThisMachine
	case agree >= 1 && differ >= 2:
		return NotKnown
	case differ == 1:
		return NotKnown
	default:
		return AnotherMachine
	}
}

// count returns how many marks agree and differ. The two marks of the host name count as one, because one new name
// changes both.
func (m Marks) count() (agree, differ int) {
	for _, mark := range []Mark{m.ID, m.Product, m.name(), m.Site} {
		switch mark {
		case Agrees:
			agree++
		case Differs:
			differ++
		}
	}

	return agree, differ
}

// name returns the mark of the host name: it agrees with the generation or with the certificate.
func (m Marks) name() Mark {
	if m.Host == Agrees || m.Node == Agrees {
		return Agrees
	}

	return max(m.Host, m.Node)
}

// describeDiffering returns which marks differ from those of a generation, "" for none.
func (m Marks) describeDiffering(gen int) string {
	var names []string
	for _, mark := range []struct {
		name string
		Mark
	}{{"machine id", m.ID}, {"product uuid", m.Product}, {"host name", m.name()}} {
		if mark.Mark == Differs {
			names = append(names, mark.name)
		}
	}

	verb := "is not the one"
	switch len(names) {
	case 0:
		return ""
	case 1:
	default:
		verb = "are not those"
	}

	return fmt.Sprintf("the %s %s of generation %d", strings.Join(names, " and the "), verb, gen)
}

// CompareNames compares two names of a host or a node.
func CompareNames(a, b string) Mark {
	return compareMark(strings.ToLower(a), strings.ToLower(b))
}

func compareMark(a, b string) Mark {
	switch {
	case a == "" || b == "":
		return Absent
	case a == b:
		return Agrees
	default:
		return Differs
	}
}
