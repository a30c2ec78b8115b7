package ovs

import (
	"cmp"
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

	"github.com/prelet/prelet/plugins/internal/devices"
)

var errDenied = errors.New("no permission")

// isNotRunning reports whether no server listens.
func isNotRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// row is the minimum that libovsdb must know about a table. Columns are selected by name, because they differ by
// version.
type row struct {
	UUID string `ovsdb:"_uuid"`
}

// query reads the database in one transaction.
func query(ctx context.Context, socket string) (database, error) {
	if err := checkSocket(ctx, socket); err != nil {
		return database{}, err
	}
	tables := map[string]model.Model{}
	for table := range columns() {
		tables[table] = &row{}
	}
	m, err := model.NewClientDBModel("Open_vSwitch", tables)
	if err != nil {
		return database{}, err
	}
	silent := logr.Discard()
	c, err := client.NewOVSDBClient(
		m,
		client.WithEndpoint("unix:"+socket),
		client.WithLogger(&silent),
	)
	if err != nil {
		return database{}, err
	}
	if err := c.Connect(ctx); err != nil {
		return database{}, err
	}
	defer c.Close()

	names := devices.SortedKeys(columns())
	schema := c.Schema()
	var selects []ovsdb.Operation
	for _, name := range names {
		s, err := selectAll(name, schema.Table(name))
		if err != nil {
			return database{}, err
		}
		selects = append(selects, s)
	}
	results, err := c.Transact(ctx, selects...)
	if err != nil {
		return database{}, err
	}
	if len(results) < len(selects) {
		return database{}, fmt.Errorf("got %d results, want %d", len(results), len(selects))
	}

	rows := map[string][]ovsdb.Row{}
	for i, name := range names {
		if results[i].Error != "" {
			return database{}, fmt.Errorf(
				"table %s: %s %s",
				name,
				results[i].Error,
				results[i].Details,
			)
		}
		rows[name] = results[i].Rows
	}

	return parseRows(rows), nil
}

// selectAll returns the operation that reads the columns of a table that this version of the database has.
func selectAll(name string, table *ovsdb.TableSchema) (ovsdb.Operation, error) {
	if table == nil {
		return ovsdb.Operation{}, fmt.Errorf("the database has no table %s", name)
	}

	var existing []string
	for _, column := range columns()[name] {
		if column == "_uuid" || table.Column(column) != nil {
			existing = append(existing, column)
		}
	}

	return ovsdb.Operation{
		Op:      ovsdb.OperationSelect,
		Table:   name,
		Where:   []ovsdb.Condition{},
		Columns: existing,
	}, nil
}

// checkSocket connects once, because libovsdb has one error for all failures.
func checkSocket(ctx context.Context, socket string) error {
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

// columns returns the columns that are read from each table.
func columns() map[string][]string {
	return map[string][]string{
		"Open_vSwitch": {"_uuid", "ovs_version", "dpdk_initialized", "dpdk_version"},
		"Bridge":       {"_uuid", "name", "datapath_type", "ports"},
		"Port":         {"_uuid", "name", "interfaces"},
		"Interface": {
			"_uuid",
			"name",
			"type",
			"options",
			"admin_state",
			"link_state",
			"link_speed",
			"error",
		},
	}
}

// parseRows converts rows, sorted by name.
func parseRows(rows map[string][]ovsdb.Row) database {
	s := database{bridges: []bridge{}}
	for _, r := range rows["Open_vSwitch"] {
		s.ovs = toString(r["ovs_version"])
		s.dpdk = toString(r["dpdk_version"])
		if b, isBool := one(r["dpdk_initialized"]).(bool); isBool {
			s.initialized = &b
		}
	}

	portName := map[string]string{}
	portOf := map[string]string{} // by interface
	for _, r := range rows["Port"] {
		id := toString(r["_uuid"])
		portName[id] = toString(r["name"])
		for _, i := range all(r["interfaces"]) {
			portOf[toString(i)] = id
		}
	}

	bridgeOf := map[string]string{} // by port
	for _, r := range rows["Bridge"] {
		b := bridge{
			Name:         toString(r["name"]),
			DatapathType: cmp.Or(toString(r["datapath_type"]), "system"),
			Ports:        []string{},
		}
		for _, p := range all(r["ports"]) {
			id := toString(p)
			bridgeOf[id] = b.Name
			b.Ports = append(b.Ports, portName[id])
		}
		slices.Sort(b.Ports)
		s.bridges = append(s.bridges, b)
	}
	slices.SortFunc(s.bridges, func(a, b bridge) int {
		return strings.Compare(a.Name, b.Name)
	})

	for _, r := range rows["Interface"] {
		l := parseInterface(r)
		if b, hasBridge := bridgeOf[portOf[toString(r["_uuid"])]]; hasBridge {
			l.Bridge = &b
		}
		s.interfaces = append(s.interfaces, l)
	}
	slices.SortFunc(s.interfaces, func(a, b link) int {
		return strings.Compare(a.Name, b.Name)
	})

	return s
}

// parseInterface converts a row of the table Interface.
func parseInterface(r ovsdb.Row) link {
	l := link{admin: toString(r["admin_state"])}
	l.Name = toString(r["name"])
	l.Type = cmp.Or(toString(r["type"]), "system")
	if text := toString(r["error"]); text != "" {
		l.Error = &text
	}
	if options, isMap := r["options"].(ovsdb.OvsMap); isMap && l.isDPDK() {
		l.PCI = parseAddress(toString(options.GoMap["dpdk-devargs"]))
	}
	if text := toString(r["link_state"]); text == "up" || text == "down" {
		l.up = new(text == "up")
	}
	if bps, isNumber := one(r["link_speed"]).(float64); isNumber && bps > 0 {
		l.gbps = bps / 1e9
	}

	return l
}

// all returns the elements of a column. A set of one element has no set around it.
func all(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case ovsdb.OvsSet:
		return v.GoSet
	}
	return []any{v}
}

// one returns the value of a column with at most one element.
func one(v any) any {
	if list := all(v); len(list) == 1 {
		return list[0]
	}
	return nil
}

// toString returns a text or an id, or nothing.
func toString(v any) string {
	switch v := one(v).(type) {
	case string:
		return v
	case ovsdb.UUID:
		return v.GoUUID
	}
	return ""
}
