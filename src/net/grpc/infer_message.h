/* The codec between the Open Inference Protocol's requests and answers
 * (net/kserve/kserve_request.h) and their protobuf form: ModelInferRequest, ModelInferResponse and
 * ModelStreamInferResponse of proto/grpc_service.proto.
 *
 * Reading passes over the message once and remembers where each tensor's values are: in
 * raw_input_contents, which tt_kserve_begin copies into the model's memory, or in typed contents,
 * which a decoder writes there. Writing makes the head of the answer and lists the outputs where
 * they are; they are always raw_output_contents.
 *
 * Rejected with the sentences of the JSON codec: classification, shared memory, sequences, reserved
 * parameters. It never touches a model, a stream or a connection. Implemented in infer_read.c,
 * infer_contents.c and infer_write.c. */
#ifndef TT_NET_GRPC_INFER_MESSAGE_H
#define TT_NET_GRPC_INFER_MESSAGE_H

#include "net/http2/http2_message.h"
#include "net/kserve/kserve_request.h"

/* Fills an initialised request, also its target. The bytes must live until tt_kserve_begin returns.
 * *out_wants_final: the client of a stream asks for the parameter triton_final_response. INVALID,
 * UNSUPPORTED, NOT_FOUND (a name that no model can have), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_infer_message_read(struct tt_kserve_request *out_request,
                                                const char *bytes, size_t size_bytes,
                                                bool *out_wants_final, struct tt_error *why);

/* Reads only what a refusal depends on and repeats: names, id and parameters. What is wrong with
 * the rest is not found. *out_raw_bytes: of all raw contents. tt_kserve_request_restart() must
 * precede another reading. The errors of tt_infer_message_read(). */
TT_MUST_CHECK enum tt_err tt_infer_message_glance(struct tt_kserve_request *out_request,
                                                  const char *bytes, size_t size_bytes,
                                                  size_t *out_raw_bytes);
/* How long the message takes to read, as bytes of a message of small fields: a byte of raw contents
 * counts 1/16, one of typed contents 1/4. It stops counting at `enough`. */
size_t tt_infer_message_weight(const char *bytes, size_t size_bytes, size_t enough);
/* For tt_infer_message_read: sets `size_bytes` and `decode` of an input whose `data` is a message
 * InferTensorContents. INVALID; `why` names the input. */
TT_MUST_CHECK enum tt_err tt_infer_contents_measure(struct tt_kserve_input *input,
                                                    struct tt_error *why);

/* The parameter triton_final_response. */
enum tt_infer_final { TT_INFER_FINAL_NONE, TT_INFER_FINAL_FALSE, TT_INFER_FINAL_TRUE };

struct tt_infer_form {
    bool is_streamed; /* a ModelStreamInferResponse around it */
    /* Outputs are copied, for memory that does not stay; many such answers share a message, and the
     * caller ends with tt_http2_message_add_text(). */
    bool is_copied;
    enum tt_infer_final final;
};

/* Appends the answer to a message: a head of its own, and outputs by reference to the inference's
 * memory, or copied. The five bytes of gRPC stand before it. False: out of memory. */
bool tt_infer_message_write(const struct tt_kserve_answer *answer, struct tt_infer_form form,
                            struct tt_http2_message *out_message);
/* Appends to a message a ModelStreamInferResponse that says why a request failed. False: out of
 * memory. */
bool tt_infer_message_write_error(const char *sentence, const struct tt_text *id,
                                  struct tt_http2_message *out_message);

#endif
