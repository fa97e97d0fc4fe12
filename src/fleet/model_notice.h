/* What a node tells another one of a model: the record and the payload of a frame MODEL.
 *
 * Both nodes have numbers of their own for their models; a notice says what a number of its sender
 * means. It has all that a scheduler needs to batch the model: limits, objective and profile. Two
 * nodes mean the same model if name, version and digest are equal. The digest is over what must be
 * the same wherever the model runs (fleet/fleet_models.h).
 *
 * The payload, little-endian:
 *   - u16 length of the name, u16 length of the version;
 *   - u32 largest batch of the profile, u32 count of lengths, u64 alpha, u64 beta;
 *   - the name, the version, and the lengths as u32;
 *   - a row per length: first all latencies as u64, then all demands as u32;
 *   - where memory is known, and only there: u64 static bytes, u64 dynamic bytes.
 * Tails are not sent: those of a profile that was measured or read are its latencies.
 *
 * Life of a notice: _read fills it, and it owns its profile until _fini. The reader trusts nothing.
 * Pure: no socket, no clock. Implemented in model_notice.c. */
#ifndef TT_FLEET_MODEL_NOTICE_H
#define TT_FLEET_MODEL_NOTICE_H

#include "cluster/frame.h"
#include "core/profile.h"

enum { TT_MODEL_NOTICE_TEXT_BYTES = 256 }; /* of a name or a version, with its NUL */

struct tt_model_notice {
    uint16_t number; /* the sender's */
    uint64_t digest;
    int64_t slo_ns;
    int32_t max_batch;
    bool is_served; /* by the sender, now */
    char name[TT_MODEL_NOTICE_TEXT_BYTES], version[TT_MODEL_NOTICE_TEXT_BYTES];
    struct tt_profile *profile; /* owned by a notice that was read; else borrowed */
};

/* Bytes that may be the name of a model: no path, nothing that ends a line of a log. */
bool tt_model_notice_is_text(const uint8_t *bytes, size_t length);
/* The bytes of its payload. */
size_t tt_model_notice_bytes(const struct tt_model_notice *self);
struct tt_frame_record tt_model_notice_record(const struct tt_model_notice *self);
/* Writes tt_model_notice_bytes(). */
void tt_model_notice_write(const struct tt_model_notice *self, uint8_t *out);
/* Errors: INVALID: `why` says what is wrong; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_notice_read(const struct tt_frame_record *record,
                                               const uint8_t *payload, size_t length,
                                               struct tt_model_notice *out_notice,
                                               struct tt_error *why);
/* Of a notice that was read. */
void tt_model_notice_fini(struct tt_model_notice *self);

#endif
