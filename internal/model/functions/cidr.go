package functions

import (
	"fmt"
	"math/big"
	"net/netip"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

func number(name string) function.Parameter {
	return parameter(name, cty.Number)
}

// cidrHostFunc is Terraform's cidrhost.
func cidrHostFunc() function.Function {
	return newFunction(
		"The address of a host in a network, by its number; a negative number counts from the end.",
		cty.String,
		func(args []cty.Value) (cty.Value, error) {
			network, err := parseNetwork(args[0])
			if err != nil {
				return cty.NilVal, err
			}
			n, err := wholeNumber(args, 1)
			if err != nil {
				return cty.NilVal, err
			}

			size := networkSize(network, network.Bits())
			offset := new(big.Int).Set(n)
			if n.Sign() < 0 {
				offset.Add(size, n)
			}
			if offset.Sign() < 0 || offset.Cmp(size) >= 0 {
				return refuseArg(
					1,
					"a prefix of %d does not accommodate a host numbered %s; write 0 to %s, or a negative number, "+
						"which "+
						"counts from the end",
					network.Bits(),
					n,
					new(big.Int).Sub(size, big.NewInt(1)),
				)
			}
			return cty.StringVal(addOffset(network.Addr(), offset).String()), nil
		},
		text("prefix"),
		number("hostnum"),
	)
}

// cidrNetmaskFunc is Terraform's cidrnetmask.
func cidrNetmaskFunc() function.Function {
	return newFunction("The netmask of an IPv4 network, as 255.255.240.0.", cty.String,
		func(args []cty.Value) (cty.Value, error) {
			network, err := parseNetwork(args[0])
			if err != nil {
				return cty.NilVal, err
			}
			if !network.Addr().Is4() {
				return refuseArg(0, "IPv6 networks have no netmask; write the length of the prefix itself, such as 64")
			}
			mask := netip.PrefixFrom(netip.MustParseAddr("255.255.255.255"), network.Bits()).
				Masked()
			return cty.StringVal(mask.Addr().String()), nil
		}, text("prefix"))
}

// cidrSubnetFunc is Terraform's cidrsubnet.
func cidrSubnetFunc() function.Function {
	return newFunction(
		"The subnet of a network with a number, from 0. Its prefix is longer by newbits.",
		cty.String,
		func(args []cty.Value) (cty.Value, error) {
			network, err := parseNetwork(args[0])
			if err != nil {
				return cty.NilVal, err
			}
			bits, err := extendedBits(network, args, 1)
			if err != nil {
				return cty.NilVal, err
			}
			n, err := wholeNumber(args, 2)
			if err != nil {
				return cty.NilVal, err
			}

			newBits := bits - network.Bits()
			if n.Sign() < 0 || n.BitLen() > newBits {
				return refuseArg(
					2,
					"a prefix extension of %d does not accommodate a subnet numbered %s; write 0 to %s",
					newBits,
					n,
					new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(newBits)), big.NewInt(1)),
				)
			}
			offset := n.Mul(n, networkSize(network, bits))
			return subnet(network, offset, bits), nil
		},
		text("prefix"),
		number("newbits"),
		number("netnum"),
	)
}

// cidrSubnetsFunc is Terraform's cidrsubnets.
func cidrSubnetsFunc() function.Function {
	newBits := number("newbits")

	return function.New(&function.Spec{
		Description: "Consecutive subnets of a network, one for each argument: how many bits longer its prefix is.",
		Params:      []function.Parameter{text("prefix")},
		VarParam:    &newBits,
		Type:        function.StaticReturnType(cty.List(cty.String)),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return makeSubnets(args)
		},
	})
}

func makeSubnets(args []cty.Value) (cty.Value, error) {
	network, err := parseNetwork(args[0])
	if err != nil {
		return cty.NilVal, err
	}

	end := networkSize(network, network.Bits())
	next := new(big.Int)
	var subnets []cty.Value
	for i := 1; i < len(args); i++ {
		bits, err := extendedBits(network, args, i)
		if err != nil {
			return cty.NilVal, err
		}
		if bits == network.Bits() {
			return refuseArg(i, "must extend prefix by at least one bit")
		}

		size := networkSize(network, bits)
		if rest := new(big.Int).Mod(next, size); rest.Sign() > 0 {
			next.Add(next, size).Sub(next, rest) // a network begins at a multiple of its size
		}
		start := new(big.Int).Set(next)
		if next.Add(next, size).Cmp(end) > 0 {
			return refuseArg(i,
				"not enough remaining address space for a subnet with a prefix of %d bits", bits)
		}
		subnets = append(subnets, subnet(network, start, bits))
	}

	return listOf(cty.String, subnets), nil
}

// cidrContainsFunc is OpenTofu's cidrcontains.
func cidrContainsFunc() function.Function {
	return newFunction(
		"Whether a network contains an address, or all of another network.",
		cty.Bool,
		func(args []cty.Value) (cty.Value, error) {
			network, err := parseNetwork(args[0])
			if err != nil {
				return cty.NilVal, err
			}
			inner, err := parsePart(args[1].AsString())
			if err != nil {
				return cty.NilVal, err
			}

			network, inner = unmap(network), unmap(inner)
			if network.Addr().Is4() != inner.Addr().Is4() {
				return refuseArg(1, "%s and %s are of different address families; pick those of one family first, "+
					"for example with can()", args[0].AsString(), args[1].AsString())
			}

			return cty.BoolVal(inner.Bits() >= network.Bits() && network.Contains(inner.Addr())), nil
		},
		text("containing_prefix"),
		text("contained_ip_or_prefix"),
	)
}

func parsePart(s string) (netip.Prefix, error) {
	ip, err := netip.ParseAddr(s)
	if err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, function.NewArgErrorf(1, "%q is not an address or a network, such as 10.0.0.1 or 10.0.0.0/8", s)
	}

	return p.Masked(), nil
}

// unmap returns a network of IPv4-mapped addresses as an IPv4 network, as OpenTofu does.
func unmap(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if !p.Addr().Is4In6() || p.Bits() < mapped {
		return p
	}

	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
}

// parseNetwork parses a network. Bits of its address after the prefix are dropped.
func parseNetwork(v cty.Value) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v.AsString())
	if err != nil {
		return p, function.NewArgErrorf(0, "%q is not a network: %s", v.AsString(), whyNoNetwork(v.AsString()))
	}

	return p.Masked(), nil
}

// whyNoNetwork returns why a text is not a network, and the correction.
func whyNoNetwork(text string) string {
	address, bits, hasBits := strings.Cut(text, "/")
	ip, err := netip.ParseAddr(address)
	n, notNumber := strconv.Atoi(bits)
	switch {
	case text == "":
		return "it is empty; write one, such as 10.0.0.0/8"
	case err != nil:
		return fmt.Sprintf("%q is not an IP address; write one, such as 10.0.0.0/8", address)
	case !hasBits:
		return fmt.Sprintf("it has no prefix length; write %s/%d for this address alone, or the length of its network",
			address, ip.BitLen())
	case notNumber != nil:
		return fmt.Sprintf("%q is not a prefix length; write a number from 0 to %d", bits, ip.BitLen())
	case n < 0 || n > ip.BitLen():
		return fmt.Sprintf("its prefix length is not from 0 to %d", ip.BitLen())
	}

	return "write one, such as 10.0.0.0/8"
}

// extendedBits returns the length of a network's prefix plus argument i.
func extendedBits(network netip.Prefix, args []cty.Value, i int) (int, error) {
	n, err := wholeNumber(args, i)
	if err != nil {
		return 0, err
	}
	free := int64(network.Addr().BitLen() - network.Bits())
	if n.Sign() < 0 || !n.IsInt64() || n.Int64() > free {
		return 0, function.NewArgErrorf(
			i,
			"insufficient address space to extend a prefix of %d by %s; write 0 to %d: how much longer the prefix "+
				"becomes, "+
				"not its length",
			network.Bits(),
			n,
			free,
		)
	}

	return network.Bits() + int(n.Int64()), nil
}

func wholeNumber(args []cty.Value, i int) (*big.Int, error) {
	f := args[i].AsBigFloat()
	if !f.IsInt() || f.MantExp(nil) > 256 {
		return nil, function.NewArgErrorf(i, "a whole number is needed")
	}
	n, _ := f.Int(nil)

	return n, nil
}

// networkSize returns the number of addresses in a subnet of a network with a prefix of some bits.
func networkSize(network netip.Prefix, bits int) *big.Int {
	one := big.NewInt(1)
	free := network.Addr().BitLen() - bits

	return one.Lsh(one, uint(free))
}

func subnet(network netip.Prefix, offset *big.Int, bits int) cty.Value {
	return cty.StringVal(netip.PrefixFrom(addOffset(network.Addr(), offset), bits).String())
}

// addOffset returns the address at an offset from another. It must exist.
func addOffset(first netip.Addr, offset *big.Int) netip.Addr {
	sum := new(big.Int).SetBytes(first.AsSlice())
	sum.Add(sum, offset)
	raw := make([]byte, first.BitLen()/8)
	address, _ := netip.AddrFromSlice(sum.FillBytes(raw))

	return address
}
