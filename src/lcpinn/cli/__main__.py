from lcpinn.cli import main

main()
