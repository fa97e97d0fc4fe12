/* What the JSON codecs of inference requests share: kserve_json.c and kserve_generate.c. */
#ifndef TT_NET_KSERVE_KSERVE_JSON_INTERNAL_H
#define TT_NET_KSERVE_KSERVE_JSON_INTERNAL_H

#include "net/json/json_tensor.h"
#include "net/kserve/kserve_json.h"

/* State shared by the functions that read the parts of a body. */
struct tt_kserve_reader {
    struct tt_json json;
    struct tt_kserve_request *request;
    const char *binary; /* the next binary tensor */
    size_t binary_left;
    bool allows_binary;
    struct tt_error *why;
};

/* Reads the value of a parameter of the request if it is known (*out_taken); refuses what is not
 * supported. */
TT_MUST_CHECK enum tt_err tt_kserve_read_parameter(struct tt_kserve_reader *reader, const char *key,
                                                   void *options_context, bool *out_taken);
/* Reads the request's "id". */
TT_MUST_CHECK enum tt_err tt_kserve_read_id(struct tt_kserve_reader *reader);
/* The `decode` of an input whose `data` is a JSON array; its argument is the depth that the array
 * may have. */
tt_kserve_decode_fn tt_kserve_decode_array;

#endif
