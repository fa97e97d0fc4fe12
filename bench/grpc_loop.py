#!/usr/bin/env python3
"""A closed loop of ModelInfer calls for bench/request_cost.py: its clients wait, so that only the server is measured.

usage: grpc_loop.py HOST:PORT CLIENTS REQUESTS"""

import sys
import threading

import grpc
import numpy
from tritonclient.grpc import service_pb2


def message(model="identity"):
    row = numpy.arange(16, dtype=numpy.float32)[None]
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name="INPUT0", datatype="FP32", shape=row.shape)
    request.raw_input_contents.append(row.tobytes())
    return request.SerializeToString(), row.tobytes()


def loop(address, count, failures):
    sent, expected = message()
    own = [("grpc.use_local_subchannel_pool", 1)]  # a connection per client
    with grpc.insecure_channel(address, own) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(count):
            if not call(sent, timeout=60, wait_for_ready=True).endswith(expected):
                failures.append("a wrong answer")


def main():
    address, clients, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    failures = []
    threads = [threading.Thread(target=loop, args=(address, requests // clients, failures)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(len(failures) > 0)


if __name__ == "__main__":
    main()
