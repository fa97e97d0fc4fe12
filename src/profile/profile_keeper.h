/* A profile while it is measured: every point so far, on disk after each, so that an interrupted
 * measurement can continue.
 *
 * The points are in FILE.part, in the form of the final file FILE. A later run reads FILE.part if
 * it is of the same model file, cut and device; _finished removes it. `recall` and `keep` are those
 * of tt_calibrate_options. */
#ifndef TT_PROFILE_PROFILE_KEEPER_H
#define TT_PROFILE_PROFILE_KEEPER_H

#include "profile/calibrate.h"
#include "profile/profile_file.h"

struct tt_profile_keeper {
    struct tt_profile_file_origin origin;
    char part[4096];        /* the path of FILE.part; "": nothing is kept on disk */
    Tutti__Profile *before; /* an earlier run's points, or NULL */
    int32_t count, recalled;
    int64_t capacity;
    struct tt_calibration_point *points;
    enum tt_err err; /* the first error of writing */
    struct tt_error why;
};

/* The strings of `origin` must outlive the keeper. `path` NULL: keep nothing on disk. */
void tt_profile_keeper_init(struct tt_profile_keeper *self,
                            const struct tt_profile_file_origin *origin, const char *path);
void tt_profile_keeper_fini(struct tt_profile_keeper *self);
bool tt_profile_keeper_recall(struct tt_profile_keeper *self, struct tt_calibration_point *points,
                              int32_t count);
void tt_profile_keeper_keep(struct tt_profile_keeper *self,
                            const struct tt_calibration_point *points, int32_t count);
/* Appends all points as the text of the file. */
void tt_profile_keeper_print(const struct tt_profile_keeper *self, struct tt_text *out_text);
/* Called when FILE is written: removes FILE.part. */
void tt_profile_keeper_finished(struct tt_profile_keeper *self);

#endif
