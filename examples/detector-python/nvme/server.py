"""detector.v1.DetectorService over gRPC. Generated service stubs are not needed for three methods."""

from concurrent import futures

import grpc
from google.protobuf import json_format

import detector_pb2 as pb
import nvme


def describe(_request, _context):
    return nvme.describe()


def validate(request, _context):
    return pb.ValidateResponse(problems=nvme.problems(json_format.MessageToDict(request.config)))


def detect(request, _context):
    return nvme.detect(request.root or "/", json_format.MessageToDict(request.config))


def start(path):
    """Listens on a Unix socket. Each call has a thread: one that waits for ever keeps no other from its answer."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=[("grpc.max_receive_message_length", 1 << 20)])
    methods = {
        name: grpc.unary_unary_rpc_method_handler(do, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString())
        for name, do, request in (
            ("Describe", describe, pb.DescribeRequest),
            ("Validate", validate, pb.ValidateRequest),
            ("Detect", detect, pb.DetectRequest),
        )
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("detector.v1.DetectorService", methods),))
    if not server.add_insecure_port("unix:" + path):
        raise OSError("cannot listen on " + path)
    server.start()
    return server
