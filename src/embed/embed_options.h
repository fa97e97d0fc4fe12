/* The options of tutti_open() (include/tutti/tutti.h): strings "key=value" with the keys of `tutti
 * serve`'s flags. Implemented in embed_options.c. */
#ifndef TT_EMBED_EMBED_OPTIONS_H
#define TT_EMBED_EMBED_OPTIONS_H

#include "control/control.h"
#include "serve/limits.h"

enum { TT_EMBED_MAX_LOADS = 256 };

struct tt_embed_options {
    struct tt_control_options control; /* without repositories; points into this struct */
    struct tt_limits limits;
    const char *loads[TT_EMBED_MAX_LOADS]; /* the caller's strings */
    bool logs;                             /* to standard error */
};

/* `self` must stay where it is. The strings are borrowed for its life. INVALID: an option is
 * unknown, or its value is not allowed; `why` names it and what would be right. */
TT_MUST_CHECK enum tt_err tt_embed_options_init(struct tt_embed_options *self,
                                                const char *const *options, int32_t count,
                                                struct tt_error *why);

#endif
