/* Machines that are processes of this host: a backend with emulated devices for each node. For
 * trials of scaling on one machine.
 *
 * The folder has three files for each node: NAME.lock, which the process holds locked as long as it
 * lives and which has its process id, and NAME.log with what it says. The processes do not end with
 * the scheduler that started them: the next primary on this host finds them by their locks. The
 * file `epoch` has the highest epoch of a scheduler that has scaled; lower ones are refused.
 *
 * A node that is to stop gets SIGTERM. Implemented in emulated_provider.c. */
#ifndef TT_ACTUATE_EMULATED_PROVIDER_H
#define TT_ACTUATE_EMULATED_PROVIDER_H

#include "actuate/scale_provider.h"

struct tt_emulated_options {
    const char *folder;      /* is made if it is not there */
    const char *const *args; /* of the program, without the node's name; ends with NULL; borrowed */
    const char *program;     /* borrowed */
};

/* Errors: IO: the folder; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_emulated_provider_open(const struct tt_emulated_options *options,
                                                    struct tt_scale_provider *out_provider,
                                                    struct tt_error *why);

#endif
