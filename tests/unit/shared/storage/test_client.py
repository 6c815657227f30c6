import subprocess
import sys


def test_who_uses_no_bucket_does_not_load_the_s3_client() -> None:
    code = "import sys, shared.storage.client; sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
