/* An inference request and its answer as the Open Inference Protocol (KServe v2) defines them,
 * independent of transport and encoding. Codecs fill requests and write answers: kserve_json.h for
 * JSON with binary tensors; a protobuf codec would use the same two structs.
 *
 * Life of a request: init; a codec sets its fields, which point into the received bytes;
 * `tt_kserve_begin` checks it against the model's signature, reserves memory in the model's pool
 * and writes each input there (the only copy from the socket). Then the received bytes may go. The
 * caller submits the inference with `options`. When it is done without error,
 * `tt_kserve_answer_fill` lists the outputs where they are; nothing is copied.
 *
 * It never parses or prints an encoding, and never waits. All functions belong to the thread of the
 * port. Implemented in kserve_request.c. */
#ifndef TT_NET_KSERVE_KSERVE_REQUEST_H
#define TT_NET_KSERVE_KSERVE_REQUEST_H

#include "base/text.h"
#include "engine/engine.h"
#include "serve/inference.h"
#include "serve/serving.h"

struct tt_kserve_input;
struct tt_kserve_share;

/* Writes the values of an input, exactly `size_bytes`, to `to`. INVALID, NO_MEMORY. */
typedef enum tt_err tt_kserve_decode_fn(const struct tt_kserve_input *input, void *to,
                                        size_t size_bytes, struct tt_error *why);

struct tt_kserve_input {
    const char *name, *datatype; /* borrowed, not NUL-terminated; "FP32" ... */
    size_t name_bytes, datatype_bytes;
    enum tt_dtype dtype; /* tt_dtype_parse of `datatype` */
    struct tt_shape shape;
    const void *data; /* borrowed: the tensor, or what `decode` reads */
    size_t data_bytes;
    size_t size_bytes;           /* of the tensor in memory, as `shape` and `datatype` require */
    tt_kserve_decode_fn *decode; /* NULL: `data` is the tensor */
    int32_t decode_argument;     /* for `decode` only */
    int32_t index;               /* in the signature; set by tt_kserve_begin */
};

struct tt_kserve_output {
    const char *name; /* borrowed, not NUL-terminated */
    size_t name_bytes;
    bool is_binary; /* for codecs with several forms of tensors */
    struct tt_kserve_share
        *share;    /* where it goes in shared memory (kserve_share.h); NULL: nowhere */
    int32_t index; /* in the signature; set by tt_kserve_begin */
};

struct tt_kserve_target {
    char model[TT_MAX_NAME_BYTES];
    char version[32]; /* "": the highest ready version */
};

struct tt_kserve_block;
struct tt_shared_memory;

/* Writing more shared memory than this would hold up all other connections of a thread for some
 * hundred microseconds or more, so another thread does it. */
enum { TT_KSERVE_SHARED_AT_ONCE = 256 * 1024 };

struct tt_kserve_request {
    struct tt_kserve_target target;
    /* As the answer repeats it, in the codec's form: JSON keeps quotes and escapes. Empty: none. */
    struct tt_text id;
    int32_t id_margin;                   /* bytes of quotes at either end of `id` */
    struct tt_inference_options options; /* deadline and priority */
    bool binary_output;                  /* form of outputs where none is requested by name */
    bool is_flat;                        /* inputs are members of the body (generate) */
    int32_t input_count;
    int32_t output_count; /* 0: all outputs of the model */
    struct tt_kserve_input inputs[TT_MAX_TENSORS];
    struct tt_kserve_output outputs[TT_MAX_TENSORS];
    struct tt_shared_memory *memory; /* borrowed; set after _init; NULL: none is shared */
    struct tt_kserve_share *shares;  /* that it uses */
    struct tt_kserve_block *blocks;  /* see tt_kserve_request_keep */
};

/* Sets all fields but `target` and the arrays, which are long and of which only the counted members
 * are read. */
void tt_kserve_request_init(struct tt_kserve_request *self);
void tt_kserve_request_fini(struct tt_kserve_request *self);
/* As after _init, but with its target and its memory for sharing: it was read in part, and is read
 * again. */
void tt_kserve_request_restart(struct tt_kserve_request *self);
/* Memory for a codec that lives as long as the request; NULL: none left. */
char *tt_kserve_request_keep(struct tt_kserve_request *self, size_t size_bytes);
/* The request's id, for log lines: "" where there is none. One that does not fit is cut, and in
 * JSON keeps its escapes. */
const char *tt_kserve_request_id(const struct tt_kserve_request *self, char *out, size_t capacity);

/* How many rows so many bytes of binary inputs have, if they are right: where all inputs are of
 * fixed size; else 1. 0: more than the largest batch. */
int32_t tt_kserve_rows_in(const struct tt_signature *signature, size_t size_bytes);
/* Sets options.id, for traces, from the id that was read. A long id with escapes has none there. */
void tt_kserve_request_identify(struct tt_kserve_request *self);

/* The first half of tt_kserve_begin(): checks the request against the model and reserves memory,
 * which is not filled yet. INVALID (names, datatypes, shapes), BUSY, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_reserve(struct tt_kserve_request *self, struct tt_port *port,
                                            struct tt_served_model *model,
                                            struct tt_inference **out_inference,
                                            struct tt_error *why);
/* The second half: writes the inputs. Any thread, while no other one uses the two. INVALID
 * (values), NO_MEMORY; the caller releases the inference. */
TT_MUST_CHECK enum tt_err tt_kserve_fill(const struct tt_kserve_request *self,
                                         struct tt_inference *inference, struct tt_error *why);
/* The same in two parts: the inputs that came with the request, after which the received bytes may
 * go, and those in shared memory. Also IO. */
TT_MUST_CHECK enum tt_err tt_kserve_fill_received(const struct tt_kserve_request *self,
                                                  struct tt_inference *inference,
                                                  struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_kserve_fill_shared(const struct tt_kserve_request *self,
                                                struct tt_inference *inference,
                                                struct tt_error *why);
/* Bytes of inputs in shared memory. */
uint64_t tt_kserve_shared_input_bytes(const struct tt_kserve_request *self);
/* Checks the request against the model, reserves memory and fills it: an inference ready for
 * tt_inference_submit, which the caller owns. INVALID (names, datatypes, shapes, values), BUSY,
 * NO_MEMORY; `why` names the input or output. */
TT_MUST_CHECK enum tt_err tt_kserve_begin(struct tt_kserve_request *self, struct tt_port *port,
                                          struct tt_served_model *model,
                                          struct tt_inference **out_inference,
                                          struct tt_error *why);

struct tt_kserve_answer {
    const char *model_name, *model_version; /* the model's */
    const struct tt_text *id;               /* the request's */
    int32_t output_count;
    struct {
        const struct tt_tensor_spec *spec; /* the model's: name and datatype */
        struct tt_tensor_view view;        /* the inference's: until it is released */
        bool is_binary;
        const struct tt_kserve_share *share; /* the request's; NULL: it is in the answer */
    } outputs[TT_MAX_TENSORS];
};

/* Lists the outputs that the request asks for, of an inference that is done without error. All
 * pointers are borrowed from request, model and inference. */
void tt_kserve_answer_fill(struct tt_kserve_answer *out_answer,
                           const struct tt_kserve_request *request,
                           const struct tt_served_model *model,
                           const struct tt_inference *inference);

#endif
