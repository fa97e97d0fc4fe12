/* A profile in the making: every point measured so far, on disk after each, so that whoever is
 * interrupted goes on from there.
 *
 * The points lie in FILE.part, beside where the finished file will stand and in its form; it is
 * taken up again if it is of the same model file, cut and device, and goes when the profile is
 * finished. Its `recall` and `keep` are those of tt_calibrate_options. */
#ifndef TT_PROFILE_PROFILE_KEEPER_H
#define TT_PROFILE_PROFILE_KEEPER_H

#include "profile/calibrate.h"
#include "profile/profile_file.h"

struct tt_profile_keeper {
    struct tt_profile_file_origin origin;
    char part[4096];        /* "": nothing is kept on disk */
    Tutti__Profile *before; /* what an earlier run left; or NULL */
    int32_t count, capacity, recalled;
    struct tt_calibration_point *points;
    enum tt_err err; /* the first that writing met */
    struct tt_error why;
};

/* `origin`'s strings are the caller's for the keeper's life; `path` NULL: keep nothing. */
void tt_profile_keeper_init(struct tt_profile_keeper *self,
                            const struct tt_profile_file_origin *origin, const char *path);
void tt_profile_keeper_fini(struct tt_profile_keeper *self);
bool tt_profile_keeper_recall(struct tt_profile_keeper *self, struct tt_calibration_point *points,
                              int32_t count);
void tt_profile_keeper_keep(struct tt_profile_keeper *self,
                            const struct tt_calibration_point *points, int32_t count);
/* All points there are, as a file's text. */
void tt_profile_keeper_print(const struct tt_profile_keeper *self, struct tt_text *out_text);
/* The profile is written: the part goes. */
void tt_profile_keeper_finished(struct tt_profile_keeper *self);

#endif
