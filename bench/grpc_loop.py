#!/usr/bin/env python3
"""A closed loop of ModelInfer calls for bench/request_cost.py: its clients wait, so that only the server is measured.

usage: grpc_loop.py HOST:PORT CLIENTS REQUESTS [TIMEOUT_US]

With a timeout every call must be refused because of it."""

import sys
import threading

import grpc
import numpy
from tritonclient.grpc import service_pb2


def message(model="identity", timeout_us=0):
    row = numpy.arange(16, dtype=numpy.float32)[None]
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name="INPUT0", datatype="FP32", shape=row.shape)
    request.raw_input_contents.append(row.tobytes())
    if timeout_us:
        request.parameters["timeout"].int64_param = timeout_us
    return request.SerializeToString(), row.tobytes()


def is_right(call, sent, expected, timeout_us):
    try:
        return call(sent, timeout=60, wait_for_ready=True).endswith(expected) and not timeout_us
    except grpc.RpcError as error:
        return timeout_us and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def loop(address, count, timeout_us, failures):
    sent, expected = message(timeout_us=timeout_us)
    own = [("grpc.use_local_subchannel_pool", 1)]  # a connection per client
    with grpc.insecure_channel(address, own) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(count):
            if not is_right(call, sent, expected, timeout_us):
                failures.append("a wrong answer")


def main():
    address, clients, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    timeout_us = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    failures = []
    given = (address, requests // clients, timeout_us, failures)
    threads = [threading.Thread(target=loop, args=given) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(len(failures) > 0)


if __name__ == "__main__":
    main()
