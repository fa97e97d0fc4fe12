/* Parameters of a request that mean the same in every encoding, and the sentences that reject those
 * that this server does not support. Codecs read the values; what is rejected, and with which
 * words, is decided here. Implemented in kserve_parameters.c. */
#ifndef TT_NET_KSERVE_KSERVE_PARAMETERS_H
#define TT_NET_KSERVE_KSERVE_PARAMETERS_H

#include "base/err.h"

#include <stdbool.h>

/* UNSUPPORTED for a parameter of shared memory, of an input or an output; OK for any other key. */
TT_MUST_CHECK enum tt_err tt_kserve_check_shared_memory(const char *key, struct tt_error *why);
/* UNSUPPORTED: a call that is about shared memory, of a server without. */
enum tt_err tt_kserve_refuse_shared_memory(struct tt_error *why);
/* The same about memory of a GPU. */
enum tt_err tt_kserve_refuse_cuda_memory(struct tt_error *why);
/* UNSUPPORTED: a load or unload that names one of several repositories. */
enum tt_err tt_kserve_refuse_repository(struct tt_error *why);
/* INVALID for a key of a request that Triton reserves; OK for any other key. */
TT_MUST_CHECK enum tt_err tt_kserve_check_reserved(const char *key, struct tt_error *why);
/* UNSUPPORTED: a request that belongs to a sequence. */
enum tt_err tt_kserve_refuse_sequence(struct tt_error *why);
/* UNSUPPORTED: an output in form of its highest classes. */
enum tt_err tt_kserve_refuse_classification(struct tt_error *why);
/* NOT_FOUND: a name or version longer than any model's. */
enum tt_err tt_kserve_refuse_long_name(struct tt_error *why);

#endif
