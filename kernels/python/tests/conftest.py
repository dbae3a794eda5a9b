"""One warmed zygote for all tests; a fresh kernel for each that asks for one."""
import itertools

import pytest

from harness import Zygote

_numbers = itertools.count()


@pytest.fixture(scope="session")
def zygote():
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def new_kernel(zygote):
    """Makes kernels and ends them."""
    made = []

    def make(**how):
        made.append(zygote.kernel(name=f"k{next(_numbers)}", **how))
        return made[-1]

    yield make
    for kernel in made:
        kernel.close()


@pytest.fixture
def kernel(new_kernel):
    return new_kernel()
