#include "net/grpc/grpc_operations.h"

#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_work.h"

const struct tt_grpc_operations tt_grpc_operations = {.find = tt_grpc_method_find,
                                                      .infer = tt_grpc_call_infer,
                                                      .is_large = tt_grpc_call_is_large,
                                                      .unpack_here = tt_grpc_call_unpack_here,
                                                      .take_large = tt_grpc_call_take_large,
                                                      .page = tt_grpc_call_page,
                                                      .cancel = tt_grpc_call_cancel,
                                                      .watch = tt_grpc_call_watch};
