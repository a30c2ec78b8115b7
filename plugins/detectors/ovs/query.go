package ovs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

var errDenied = errors.New("no permission")

// notThere tells whether nobody listens.
func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// row is the least that libovsdb wants to know of a table. Columns are asked by name below, and only those that this
// database has: they differ by version.
type row struct {
	UUID string `ovsdb:"_uuid"`
}

// query reads what it needs, in one transaction.
func query(ctx context.Context, socket string) (s state, err error) {
	if err := reachable(ctx, socket); err != nil {
		return s, err
	}
	tables := map[string]model.Model{}
	for table := range columns() {
		tables[table] = &row{}
	}
	m, err := model.NewClientDBModel("Open_vSwitch", tables)
	if err != nil {
		return s, err
	}
	silent := logr.Discard()
	c, err := client.NewOVSDBClient(m, client.WithEndpoint("unix:"+socket), client.WithLogger(&silent))
	if err != nil {
		return s, err
	}
	if err := c.Connect(ctx); err != nil {
		return s, err
	}
	defer c.Close()
	schema := c.Schema()
	var names []string
	var ops []ovsdb.Operation
	for _, table := range sortedKeys(columns()) {
		has := schema.Table(table)
		if has == nil {
			return s, fmt.Errorf("the database has no table %s", table)
		}
		var ask []string
		for _, column := range columns()[table] {
			if column == "_uuid" || has.Column(column) != nil {
				ask = append(ask, column)
			}
		}
		names = append(names, table)
		ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Where: []ovsdb.Condition{}, Columns: ask})
	}
	results, err := c.Transact(ctx, ops...)
	if err != nil {
		return s, err
	}
	if len(results) < len(ops) {
		return s, fmt.Errorf("%d answers to %d questions", len(results), len(ops))
	}
	rows := map[string][]ovsdb.Row{}
	for i, name := range names {
		if results[i].Error != "" {
			return s, fmt.Errorf("table %s: %s %s", name, results[i].Error, results[i].Details)
		}
		rows[name] = results[i].Rows
	}
	return read(rows), nil
}

// reachable connects once: libovsdb tells all failures by the same words.
func reachable(ctx context.Context, socket string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errDenied
	case err != nil:
		return err
	}
	return c.Close()
}

// columns are what is asked of each table.
func columns() map[string][]string {
	return map[string][]string{
		"Open_vSwitch": {"_uuid", "ovs_version", "dpdk_initialized", "dpdk_version"},
		"Bridge":       {"_uuid", "name", "datapath_type", "ports"},
		"Port":         {"_uuid", "name", "interfaces"},
		"Interface":    {"_uuid", "name", "type", "options", "admin_state", "link_state", "link_speed", "error"},
	}
}

// read turns rows into what they say. Order is by name.
func read(rows map[string][]ovsdb.Row) (s state) {
	for _, r := range rows["Open_vSwitch"] {
		s.ovs, s.dpdk = str(r["ovs_version"]), str(r["dpdk_version"])
		if b, ok := one(r["dpdk_initialized"]).(bool); ok {
			s.initialized = &b
		}
	}
	portName, bridgeOf := map[string]string{}, map[string]string{}
	portOf := map[string]string{} // interface to port
	for _, r := range rows["Port"] {
		id := str(r["_uuid"])
		portName[id] = str(r["name"])
		for _, i := range all(r["interfaces"]) {
			portOf[str(i)] = id
		}
	}
	s.bridges = []bridge{}
	for _, r := range rows["Bridge"] {
		b := bridge{Name: str(r["name"]), DatapathType: str(r["datapath_type"]), Ports: []string{}}
		if b.DatapathType == "" {
			b.DatapathType = "system"
		}
		for _, p := range all(r["ports"]) {
			bridgeOf[str(p)] = b.Name
			b.Ports = append(b.Ports, portName[str(p)])
		}
		slices.Sort(b.Ports)
		s.bridges = append(s.bridges, b)
	}
	slices.SortFunc(s.bridges, func(a, b bridge) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range rows["Interface"] {
		l := link{iface: iface{Name: str(r["name"]), Type: str(r["type"])}, admin: str(r["admin_state"])}
		if l.Type == "" {
			l.Type = "system"
		}
		if b, ok := bridgeOf[portOf[str(r["_uuid"])]]; ok {
			l.Bridge = &b
		}
		if e := str(r["error"]); e != "" {
			l.Error = &e
		}
		if options, ok := r["options"].(ovsdb.OvsMap); ok && l.isDPDK() {
			l.PCI = address(str(options.GoMap["dpdk-devargs"]))
		}
		if state := str(r["link_state"]); state == "up" || state == "down" {
			l.up = new(state == "up")
		}
		if bps, ok := one(r["link_speed"]).(float64); ok && bps > 0 {
			l.gbps = bps / 1e9
		}
		s.interfaces = append(s.interfaces, l)
	}
	slices.SortFunc(s.interfaces, func(a, b link) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// all returns the elements of a column: a set, or the one element that is written without a set around it.
func all(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case ovsdb.OvsSet:
		return v.GoSet
	}
	return []any{v}
}

// one returns the value of a column that has one or none.
func one(v any) any {
	if list := all(v); len(list) == 1 {
		return list[0]
	}
	return nil
}

func str(v any) string {
	switch v := one(v).(type) {
	case string:
		return v
	case ovsdb.UUID:
		return v.GoUUID
	}
	return ""
}
