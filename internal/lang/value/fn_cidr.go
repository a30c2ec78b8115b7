package value

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

func wholeNumber(name string) function.Parameter {
	return function.Parameter{Name: name, Type: cty.Number}
}

// cidrHostFunc is Terraform's cidrhost: the address with a number in a network; negative numbers count from its end.
func cidrHostFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The address with a number in a network; a negative one counts from the end.",
		Params:      []function.Parameter{text("prefix"), wholeNumber("hostnum")},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := readPrefix(a[0])
			if err != nil {
				return cty.NilVal, err
			}
			n, err := readWhole(a, 1)
			if err != nil {
				return cty.NilVal, err
			}
			size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
			offset := new(big.Int).Set(n)
			if n.Sign() < 0 {
				offset.Add(size, n)
			}
			if offset.Sign() < 0 || offset.Cmp(size) >= 0 {
				return cty.NilVal, function.NewArgErrorf(1, "a prefix of %d does not accommodate a host numbered %s", p.Bits(), n)
			}

			return cty.StringVal(addOffset(p.Addr(), offset).String()), nil
		},
	})
}

// cidrNetmaskFunc is Terraform's cidrnetmask.
func cidrNetmaskFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The netmask of an IPv4 network, as 255.255.240.0.",
		Params:      []function.Parameter{text("prefix")},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := readPrefix(a[0])
			switch {
			case err != nil:
				return cty.NilVal, err
			case !p.Addr().Is4():
				return cty.NilVal, function.NewArgErrorf(0, "IPv6 networks have no netmask")
			}
			mask := netip.PrefixFrom(netip.MustParseAddr("255.255.255.255"), p.Bits()).Masked()

			return cty.StringVal(mask.Addr().String()), nil
		},
	})
}

// cidrSubnetFunc is Terraform's cidrsubnet: the network with a number, of those that are some bits longer.
func cidrSubnetFunc() function.Function {
	return function.New(&function.Spec{
		Description: "The network with a number, of those within a network whose prefix is some bits longer.",
		Params:      []function.Parameter{text("prefix"), wholeNumber("newbits"), wholeNumber("netnum")},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := readPrefix(a[0])
			if err != nil {
				return cty.NilVal, err
			}
			bits, err := readLonger(p, a, 1)
			if err != nil {
				return cty.NilVal, err
			}
			n, err := readWhole(a, 2)
			switch {
			case err != nil:
				return cty.NilVal, err
			case n.Sign() < 0 || n.BitLen() > bits-p.Bits():
				return cty.NilVal, function.NewArgErrorf(2, "a prefix extension of %d does not accommodate a subnet numbered %s", bits-p.Bits(), n)
			}
			first := addOffset(p.Addr(), n.Lsh(n, uint(p.Addr().BitLen()-bits)))

			return cty.StringVal(netip.PrefixFrom(first, bits).String()), nil
		},
	})
}

// cidrSubnetsFunc is Terraform's cidrsubnets: networks one after the other, each some bits longer than the one that they
// are in.
func cidrSubnetsFunc() function.Function {
	more := wholeNumber("newbits")
	return function.New(&function.Spec{
		Description: "Networks within a network, one after the other, each with a prefix that is some bits longer.",
		Params:      []function.Parameter{text("prefix")},
		VarParam:    &more,
		Type:        function.StaticReturnType(cty.List(cty.String)),
		Impl: func(a []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := readPrefix(a[0])
			if err != nil {
				return cty.NilVal, err
			}
			size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
			next := new(big.Int)
			var out []cty.Value
			for i := 1; i < len(a); i++ {
				bits, err := readLonger(p, a, i)
				if err != nil {
					return cty.NilVal, err
				}
				if bits == p.Bits() {
					return cty.NilVal, function.NewArgErrorf(i, "must extend prefix by at least one bit")
				}
				one := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-bits))
				if rest := new(big.Int).Mod(next, one); rest.Sign() > 0 {
					next.Add(next, one).Sub(next, rest) // a network begins at a multiple of its size
				}
				if new(big.Int).Add(next, one).Cmp(size) > 0 {
					return cty.NilVal, function.NewArgErrorf(i, "not enough remaining address space for a subnet with a prefix of %d bits", bits)
				}
				out = append(out, cty.StringVal(netip.PrefixFrom(addOffset(p.Addr(), next), bits).String()))
				next.Add(next, one)
			}

			return listOf(cty.String, out), nil
		},
	})
}

// readPrefix reads a network; what its address has beyond the prefix is left out.
func readPrefix(v cty.Value) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v.AsString())
	if err != nil {
		return p, function.NewArgErrorf(0, "%q is not a network, such as 10.0.0.0/8", v.AsString())
	}

	return p.Masked(), nil
}

// readLonger reads by how many bits a prefix is extended, and returns how long it is then.
func readLonger(p netip.Prefix, a []cty.Value, i int) (int, error) {
	n, err := readWhole(a, i)
	switch {
	case err != nil:
		return 0, err
	case n.Sign() < 0 || !n.IsInt64() || n.Int64() > int64(p.Addr().BitLen()-p.Bits()):
		return 0, function.NewArgErrorf(i, "insufficient address space to extend a prefix of %d by %s", p.Bits(), n)
	}

	return p.Bits() + int(n.Int64()), nil
}

func readWhole(a []cty.Value, i int) (*big.Int, error) {
	f := a[i].AsBigFloat()
	if !f.IsInt() || f.MantExp(nil) > 256 {
		return nil, function.NewArgError(i, errors.New("a whole number is needed"))
	}
	n, _ := f.Int(nil)

	return n, nil
}

// addOffset returns an address some addresses after another; there is one.
func addOffset(first netip.Addr, offset *big.Int) netip.Addr {
	sum := new(big.Int).Add(new(big.Int).SetBytes(first.AsSlice()), offset)
	out, ok := netip.AddrFromSlice(sum.FillBytes(make([]byte, first.BitLen()/8)))
	if !ok {
		panic(fmt.Sprintf("value: %s and %s is no address", first, offset))
	}

	return out
}
