"""EC2's metadata service on its address, for an instance whose type nodeadm knows, and as much of EC2's API as newer
versions need. Started by peers.sh."""

from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

DOCUMENT = """{"instanceId": "i-0123456789abcdef0", "region": "us-west-2", "instanceType": "p5.48xlarge",
"availabilityZone": "us-west-2a", "privateIp": "192.0.2.10", "accountId": "123456789012", "imageId": "ami-0",
"architecture": "x86_64", "version": "2017-09-30", "pendingTime": "2026-01-01T00:00:00Z"}"""

INSTANCES = """<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<reservationSet><item><instancesSet><item><instanceId>i-0123456789abcdef0</instanceId>
<privateDnsName>ip-192-0-2-10.us-west-2.compute.internal</privateDnsName>
</item></instancesSet></item></reservationSet></DescribeInstancesResponse>"""

RESPONSES = {
    "/": INSTANCES,
    "/latest/api/token": "token",
    "/latest/dynamic/instance-identity/document": DOCUMENT,
    "/latest/meta-data/mac": "02:00:00:00:00:01",
    "/latest/meta-data/local-ipv4": "192.0.2.10",
    "/latest/meta-data/local-hostname": "ip-192-0-2-10.us-west-2.compute.internal",
    "/latest/meta-data/services/domain": "amazonaws.com",
    "/latest/meta-data/placement/region": "us-west-2",
    "/latest/meta-data/instance-id": "i-0123456789abcdef0",
    "/latest/meta-data/network/interfaces/macs/": "02:00:00:00:00:01/",
    "/latest/meta-data/placement/availability-zone": "us-west-2a",
}


class Handler(BaseHTTPRequestHandler):
    """Responds to each method alike."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = RESPONSES.get(self.path.split("?")[0])
        body = (text or "").encode()
        self.send_response(404 if text is None else 200)
        self.send_header("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = do_GET


# HTTPServer would first look its own name up, and wait for a name server.
ThreadingTCPServer(("169.254.169.254", 80), Handler).serve_forever()
