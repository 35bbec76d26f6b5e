"""headwise among the thread pools that threadpoolctl sees and limits, where that is installed."""

from __future__ import annotations

from headwise._threads import get_num_threads, set_num_threads


def register() -> None:
    """Tell threadpoolctl about the kernels' threads; without it, do nothing.

    Source: the interface for controllers of other libraries, ``threadpoolctl.LibController``.
    """
    try:
        import threadpoolctl  # type: ignore[import-untyped]
    except ImportError:
        return
    if not hasattr(threadpoolctl, "LibController"):  # before 3.2
        return

    class Controller(threadpoolctl.LibController):  # type: ignore[misc]
        """Reads and sets how many threads a call uses that does not say."""

        user_api = internal_api = "headwise"
        filename_prefixes = ("_kernel.",)
        check_symbols = ("headwise_kernels",)

        def get_num_threads(self) -> int:
            return get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            set_num_threads(num_threads)

        def get_version(self) -> str:
            from headwise import __version__

            return __version__

    threadpoolctl.register(Controller)
